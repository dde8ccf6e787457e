/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * layer_caches: what each layer keeps, by shapes that are packed, by the
 * metadata alone, and by neither.  tests/caches has the models that people run.
 */

#include <stdlib.h>

#include "gpumap/model.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Read a JSON file's text. */
static struct gm_weights_config config_of(const char *text)
{
	struct gm_weights_meta meta = { .data = strdup(text),
					.bytes = strlen(text),
					.format = GPUMAP_META_CONFIG_JSON };
	struct gm_weights_config config = { .n_layers = 0 };
	struct gm_reason why;

	if (!OK(meta.data != NULL) ||
	    !EQ(gm_weights_config_read(&meta, &why, &config), 0))
		NOTE("%s", why.text);
	free(meta.data);
	return config;
}

/* "layers.0.mlp.weight BF16 8,8": @at ends behind it. */
static void add_tensor(struct gm_weights *ws, char **at)
{
	struct gm_weight w = { .shape = (uint32_t)ws->n_dims, .bytes = 1 };
	char *name = strsep(at, " "), *type = strsep(at, " ");
	char *dims = strsep(at, ";");

	w.name = name;
	OK(gm_weights_type_find(type, &w.type));
	for (char *dim; (dim = strsep(&dims, ",")) != NULL;)
		EQ(gm_weights_add_dim(ws, &w, strtoull(dim, NULL, 10)), 0);
	EQ(gm_weights_add(ws, &w), 0);
}

/* "8*2048 w128; 0; ?" for each layer: heads and elements of a token, the
 * window, elements of a convolution and of a state. */
static const char *show(const struct gm_weights_sizes *sizes)
{
	static char text[512];
	const struct gpumap_layer_cache *c = sizes->caches;
	uint32_t left = c->n_layers;
	char *to = text;

	*to = '\0';
	for (uint32_t i = 0; i < sizes->n_layers; i++, left--) {
		if (left == 0)
			left = (++c)->n_layers;
		to += sprintf(to, "%s", i > 0 ? "; " : "");
		if (c->n_heads == 0)
			to += sprintf(to, "?");
		else if (c->token_elements == 0)
			to += sprintf(to, "0");
		else
			to += sprintf(to, "%u*%llu", c->n_heads,
				      (unsigned long long)c->token_elements /
					      c->n_heads);
		if (c->window > 0)
			to += sprintf(to, " w%u", c->window);
		if (c->conv_elements > 0)
			to += sprintf(to, " c%llu",
				      (unsigned long long)c->conv_elements);
		if (c->state_elements > 0)
			to += sprintf(to, " s%llu",
				      (unsigned long long)c->state_elements);
	}
	return text;
}

static const char *caches_of(const char *config, const char *tensors)
{
	static struct gm_reason why;
	struct gm_weights ws = { .why = &why };
	struct gm_weights_sizes sizes = { .config = config_of(config) };
	char *text = strdup(tensors), *at = text;
	const char *shown;

	ws.folder = strdup("model/");
	OK(text != NULL && ws.folder != NULL &&
	   gm_weights_add_file(&ws, "f") == 0);
	while (at != NULL && *at != '\0')
		add_tensor(&ws, &at);
	shown = gm_weights_measure_layers(&ws, &sizes) == 0 ? show(&sizes)
							    : why.text;
	gm_weights_sizes_free(&sizes);
	gm_weights_free(&ws);
	free(text);
	return shown;
}

#define LLAMA                                          \
	"{\"num_hidden_layers\":1,\"hidden_size\":64," \
	"\"num_attention_heads\":8,\"num_key_value_heads\":2}"

static void packed_shapes_tell_their_rows(void)
{
	static const struct {
		const char *tensors, *want;
	} table[] = {
		/* bfloat16, and 8 bits */
		{ "l.layers.0.self_attn.k_proj.weight BF16 32,64;"
		  "l.layers.0.self_attn.v_proj.weight BF16 16,64",
		  "2*24" },
		{ "l.layers.0.self_attn.k_proj.weight F8_E4M3 32,64;"
		  "l.layers.0.self_attn.v_proj.weight F8_E4M3 32,64",
		  "2*32" },
		/* AWQ and GPTQ: the scales have the rows last. */
		{ "l.layers.0.self_attn.k_proj.qweight I32 64,4;"
		  "l.layers.0.self_attn.k_proj.scales F16 2,32;"
		  "l.layers.0.self_attn.v_proj.qweight I32 64,4;"
		  "l.layers.0.self_attn.v_proj.scales F16 2,32",
		  "2*32" },
		/* compressed-tensors and NVFP4 pack columns. */
		{ "l.layers.0.self_attn.k_proj.weight_packed I32 32,8;"
		  "l.layers.0.self_attn.v_proj.weight_packed I32 32,8",
		  "2*32" },
		{ "l.layers.0.self_attn.k_proj.weight U8 32,32;"
		  "l.layers.0.self_attn.v_proj.weight U8 32,32",
		  "2*32" },
		/* bitsandbytes leaves one column: the metadata tell. */
		{ "l.layers.0.self_attn.k_proj.weight U8 1024,1;"
		  "l.layers.0.self_attn.v_proj.weight U8 1024,1",
		  "2*16" },
		/* The metadata tell, too, where a fused one hides the columns
		 * of the output. */
		{ "l.layers.0.self_attn.qkv_proj.weight_packed I32 96,8;"
		  "l.layers.0.self_attn.o_proj.weight_packed I32 64,8",
		  "2*16" },
		{ "l.layers.0.self_attn.qkv_proj.weight BF16 96,64;"
		  "l.layers.0.self_attn.o_proj.weight BF16 64,64",
		  "2*16" },
		{ "l.layers.0.self_attn.qkv_proj.weight U8 96,32;"
		  "l.layers.0.self_attn.o_proj.weight U8 64,32",
		  "2*16" },
		/* MLX has both weights, whose columns it packs, and scales. */
		{ "l.layers.0.self_attn.k_proj.scales F16 32,1;"
		  "l.layers.0.self_attn.k_proj.weight U32 32,8;"
		  "l.layers.0.self_attn.v_proj.scales F16 32,1;"
		  "l.layers.0.self_attn.v_proj.weight U32 32,8",
		  "2*32" },
		/* Empty tensors, whose sum would be 2^64, tell nothing. */
		{ "l.layers.0.self_attn.k_proj.weight BF16 "
		  "9223372036854775808,0;"
		  "l.layers.0.self_attn.v_proj.weight BF16 "
		  "9223372036854775808,0",
		  "2*16" },
		/* Queries that are not packed are not alone. */
		{ "l.layers.0.self_attn.k_proj.weight U8 1024,1;"
		  "l.layers.0.self_attn.q_proj.weight BF16 64,64",
		  "2*16" },
		/* A norm is one of a head, of each head, or of all heads. */
		{ "l.layers.0.self_attn.k_proj.weight BF16 16,64;"
		  "l.layers.0.self_attn.k_norm.weight BF16 4",
		  "4*8" },
		{ "l.layers.0.self_attn.k_proj.weight BF16 16,64;"
		  "l.layers.0.self_attn.k_norm.weight BF16 2,8",
		  "2*16" },
		{ "l.layers.0.self_attn.k_proj.weight BF16 16,64;"
		  "l.layers.0.self_attn.k_norm.weight BF16 16",
		  "2*16" },
		/* Layer norms and a projection of the MLP tell nothing. */
		{ "l.layers.0.self_attn.k_norm.weight BF16 8;"
		  "l.layers.0.mlp.key.weight BF16 96,64",
		  "2*16" },
	};

	for (size_t i = 0; i < COUNT(table); i++)
		if (!STR(caches_of(LLAMA, table[i].tensors), table[i].want))
			NOTE("%s", table[i].tensors);
}

#define TWO_LAYERS                                       \
	"l.layers.0.self_attn.k_proj.weight BF16 32,64;" \
	"l.layers.0.self_attn.v_proj.weight BF16 32,64;" \
	"l.layers.1.self_attn.k_proj.weight BF16 32,64;" \
	"l.layers.1.self_attn.v_proj.weight BF16 32,64"

static void metadata_tell_windows(void)
{
	static const struct {
		const char *config, *want;
	} table[] = {
		{ "\"model_type\":\"llama\"", "2*32; 2*32" },
		/* of a type whose layers are not known, none has a window */
		{ "\"model_type\":\"llama\",\"sliding_window\":9",
		  "2*32; 2*32" },
		{ "\"model_type\":\"mistral\",\"sliding_window\":9",
		  "2*32 w9; 2*32 w9" },
		{ "\"model_type\":\"mistral\",\"sliding_window\":null",
		  "2*32; 2*32" },
		{ "\"model_type\":\"mistral\"", "2*32 w4096; 2*32 w4096" },
		{ "\"model_type\":\"gpt_oss\",\"sliding_window\":9",
		  "2*32 w9; 2*32" },
		{ "\"model_type\":\"gpt_oss\"", "2*32 w128; 2*32" },
		{ "\"model_type\":\"gemma3_text\",\"sliding_window\":9,"
		  "\"sliding_window_pattern\":2",
		  "2*32 w9; 2*32" },
		{ "\"model_type\":\"exaone4\",\"sliding_window\":9,"
		  "\"sliding_window_pattern\":\"LLLG\"",
		  "2*32 w9; 2*32 w9" },
		/* a list of all layers comes before every rule */
		{ "\"model_type\":\"gpt_oss\",\"sliding_window\":9,"
		  "\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
		  "2*32; 2*32 w9" },
		{ "\"layer_types\":[\"chunked_attention\",\"other\"],"
		  "\"attention_chunk_size\":7",
		  "2*32 w7; 2*32" },
		{ "\"hybrid_layer_pattern\":[0,1],\"sliding_window\":9",
		  "2*32; 2*32 w9" },
		{ "\"attn_type_list\":[1,0]", "2*32; ?" },
		/* Qwen's are said, and off */
		{ "\"model_type\":\"qwen2\",\"sliding_window\":9,"
		  "\"use_sliding_window\":false,\"max_window_layers\":1",
		  "2*32; 2*32" },
		{ "\"model_type\":\"qwen2\",\"sliding_window\":9,"
		  "\"use_sliding_window\":true,\"max_window_layers\":1",
		  "2*32; 2*32 w9" },
		{ "\"model_type\":\"qwen2\",\"sliding_window\":9,"
		  "\"use_sliding_window\":true",
		  "2*32; 2*32" },
		{ "\"model_type\":\"qwen2\",\"sliding_window\":9,"
		  "\"use_sliding_window\":true,"
		  "\"max_window_layers\":99999999999",
		  "2*32; 2*32" },
		{ "\"model_type\":\"llama4_text\"", "2*32 w8192; 2*32 w8192" },
		{ "\"model_type\":\"llama4_text\","
		  "\"attention_chunk_size\":null",
		  "2*32; 2*32" },
		{ "\"num_kv_shared_layers\":1", "2*32; 0" },
		{ "\"full_attention_interval\":2", "?; 2*32" },
		/* no interval */
		{ "\"full_attention_interval\":0", "2*32; 2*32" },
		{ "\"full_attention_interval\":-1", "2*32; 2*32" },
		{ "\"layer_types\":[[],{}]", "2*32; 2*32" },
		{ "\"layer_types\":null,\"sliding_window\":-1,"
		  "\"model_type\":\"mistral\"",
		  "2*32; 2*32" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		char config[512];

		snprintf(config, sizeof(config),
			 "{\"num_hidden_layers\":2,\"head_dim\":16,"
			 "\"num_attention_heads\":8,"
			 "\"num_key_value_heads\":2,%s}",
			 table[i].config);
		if (!STR(caches_of(config, TWO_LAYERS), table[i].want))
			NOTE("%s", table[i].config);
	}
}

#define HYBRID                                            \
	"{\"num_hidden_layers\":2,\"hidden_size\":64,"    \
	"\"num_attention_heads\":8,\"ssm_state_size\":4," \
	"\"num_key_value_heads\":2}"
#define RECURRENCE                      \
	"l.layers.0.mixer.A_log F32 2;" \
	"l.layers.0.mixer.conv1d.weight BF16 40,1,4;"

/* The rows of the convolution are taken for those that are hidden. */
static void packed_recurrences_keep_states(void)
{
	STR(caches_of(HYBRID,
		      RECURRENCE "l.layers.0.mixer.out_proj.weight BF16 64,32;"
				 "l.layers.1.mixer.k_proj.weight BF16 16,64;"
				 "l.layers.1.mixer.v_proj.weight BF16 16,64"),
	    "0 c160 s128; 2*16");
	STR(caches_of(HYBRID,
		      RECURRENCE "l.layers.0.mixer.out_proj.weight U8 1024,1;"
				 "l.layers.1.mixer.k_proj.weight U8 512,1;"
				 "l.layers.1.mixer.v_proj.weight U8 512,1"),
	    "0 c160 s160; 2*16");
	STR(caches_of(HYBRID,
		      RECURRENCE "l.layers.0.mixer.out_proj.weight U8 64,16;"
				 "l.layers.1.mixer.k_proj.weight U8 16,32;"
				 "l.layers.1.mixer.v_proj.weight U8 16,32"),
	    "0 c160 s160; 2*16");
	STR(caches_of(HYBRID,
		      RECURRENCE "l.layers.0.mixer.out_proj.scales F16 1,64;"
				 "l.layers.1.mixer.k_proj.scales F16 1,16;"
				 "l.layers.1.mixer.v_proj.scales F16 1,16"),
	    "0 c160 s160; 2*16");
	/* Without the width of the state nothing tells it. */
	STR(caches_of(LLAMA,
		      RECURRENCE "l.layers.0.mixer.out_proj.weight U8 64,16"),
	    "?");
}

/* MiMo's layers with a window have more heads of the same width; a model may
 * say neither number (Nemotron's NAS). */
static void a_layer_may_have_other_heads(void)
{
	STR(caches_of("{\"num_hidden_layers\":2,\"head_dim\":8,"
		      "\"num_attention_heads\":8,\"num_key_value_heads\":2}",
		      "l.layers.0.self_attn.k_proj.weight BF16 16,64;"
		      "l.layers.1.self_attn.k_proj.weight BF16 32,64"),
	    "2*16; 4*16");
	STR(caches_of("{\"num_hidden_layers\":1,\"hidden_size\":64,"
		      "\"num_attention_heads\":8}",
		      "l.layers.0.self_attn.k_proj.weight BF16 16,64"),
	    "2*16");
}

static void a_window_is_no_head(void)
{
	STR(caches_of("{\"num_hidden_layers\":1,\"hidden_size\":64,"
		      "\"num_attention_heads\":8,\"num_key_value_heads\":2,"
		      "\"sliding_window\":4096,\"state_size\":16}",
		      "l.layers.0.self_attn.k_proj.weight U8 1024,1"),
	    "2*16");
}

static void what_is_not_known_is_not_zero(void)
{
	/* Names that are not known: the metadata tell, layer by layer. */
	STR(caches_of("{\"num_hidden_layers\":2,\"hidden_size\":64,"
		      "\"num_attention_heads\":8,"
		      "\"layer_types\":[\"mamba\",\"attention\"]}",
		      "l.layers.0.w.weight BF16 8,8;"
		      "l.layers.1.w.weight BF16 8,8"),
	    "?; 8*16");
	/* Or nothing does. */
	STR(caches_of("{\"num_hidden_layers\":1}",
		      "l.layers.0.w.weight BF16 8,8"),
	    "?");
	STR(caches_of("{\"num_hidden_layers\":2}",
		      "l.layers.0.self_attn.k_proj.weight BF16 8,8;"
		      "l.layers.1.self_attn.new_proj.weight BF16 8,8"),
	    "1*16; ?");
	/* A layer of queries alone reads what another keeps, and an MLP keeps
	 * nothing. */
	STR(caches_of("{\"num_hidden_layers\":3}",
		      "l.layers.0.self_attn.k_proj.weight BF16 8,8;"
		      "l.layers.1.self_attn.q_proj.weight BF16 8,8;"
		      "l.layers.2.mlp.up_proj.weight BF16 8,8"),
	    "1*16; 0; 0");
	/* The norm behind an attention does not show that there is one. */
	STR(caches_of("{\"num_hidden_layers\":2,\"hidden_size\":64,"
		      "\"num_attention_heads\":8}",
		      "l.layers.0.self_attn.k_proj.weight BF16 8,8;"
		      "l.layers.1.post_attention_layernorm.weight BF16 8"),
	    "1*16; 0");
}

/* The facts of a recurrence that are the model's, and not a layer's. */
static const char *recurrence_of(const char *config, const char *tensors)
{
	static struct gm_reason why;
	static char text[32];
	struct gm_weights ws = { .why = &why };
	struct gm_weights_sizes sizes = { .config = config_of(config) };
	char *words = strdup(tensors), *at = words;

	ws.folder = strdup("model/");
	OK(words != NULL && ws.folder != NULL &&
	   gm_weights_add_file(&ws, "f") == 0);
	while (at != NULL && *at != '\0')
		add_tensor(&ws, &at);
	EQ(gm_weights_measure_layers(&ws, &sizes), 0);
	sprintf(text, "%u taps, %u bytes", sizes.config.conv_taps,
		sizes.config.state_bytes);
	gm_weights_sizes_free(&sizes);
	gm_weights_free(&ws);
	free(words);
	return text;
}

static void recurrences_have_a_type_and_taps(void)
{
	static const struct {
		const char *config, *tensors, *want;
	} table[] = {
		{ "{\"num_hidden_layers\":1,\"num_attention_heads\":8}",
		  "l.layers.0.self_attn.k_proj.weight BF16 8,8",
		  "0 taps, 0 bytes" },
		{ "{\"num_hidden_layers\":1,\"num_attention_heads\":8}",
		  "l.layers.0.mamba.conv1d.weight BF16 8,1,4",
		  "4 taps, 0 bytes" },
		{ "{\"num_hidden_layers\":1,\"num_attention_heads\":8,"
		  "\"mamba_ssm_cache_dtype\":\"float32\"}",
		  "l.layers.0.conv.conv.weight BF16 8,1,3", "3 taps, 4 bytes" },
		{ "{\"text_config\":{\"num_hidden_layers\":1,"
		  "\"num_attention_heads\":8,"
		  "\"mamba_ssm_dtype\":\"bfloat16\"}}",
		  "l.layers.0.mamba.conv1d.weight BF16 8,1,4",
		  "4 taps, 2 bytes" },
		{ "{\"num_hidden_layers\":1,\"num_attention_heads\":8,"
		  "\"model_type\":\"kimi_linear\"}",
		  "l.layers.0.mamba.conv1d.weight BF16 8,1,4",
		  "4 taps, 4 bytes" },
		/* None that an engine has; and columns that are none. */
		{ "{\"num_hidden_layers\":1,\"num_attention_heads\":8,"
		  "\"mamba_ssm_dtype\":\"float8\"}",
		  "l.layers.0.mamba.conv1d.weight BF16 8,1,4096",
		  "0 taps, 0 bytes" },
		{ "{\"num_hidden_layers\":1,\"num_attention_heads\":8,"
		  "\"mamba_ssm_dtype\":null}",
		  "l.layers.0.mamba.conv1d.weight BF16 8", "0 taps, 0 bytes" },
	};

	for (size_t i = 0; i < COUNT(table); i++)
		STR(recurrence_of(table[i].config, table[i].tensors),
		    table[i].want);
}

TAP_CASE()
{
	recurrences_have_a_type_and_taps();
	packed_shapes_tell_their_rows();
	metadata_tell_windows();
	packed_recurrences_keep_states();
	a_layer_may_have_other_heads();
	a_window_is_no_head();
	what_is_not_known_is_not_zero();
	return tap_done();
}

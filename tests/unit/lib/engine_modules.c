/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * engine_modules: a device_map of accelerate's has each tensor of a model in
 * one module, on the row of its layer, for checkpoints whose names have five
 * forms; and the layers that a file has past the map's, for llama.cpp.
 */

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include <gpumap/engine.h>

#include "tests/support/engine_table.h"
#include "tests/support/tap.h"

#define TENSORS 8192

static char *names[TENSORS]; /* as JSON has them */
static uint32_t n_names;
static char file[64];

/* ---- checkpoints --------------------------------------------------------- */

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (n_names == TENSORS ||
	    vasprintf(&names[n_names++], format, args) < 0)
		abort();
	va_end(args);
}

/* Each of the words between blanks, behind @prefix and a layer's number. */
static void add_layers(const char *prefix, uint32_t n, const char *words)
{
	for (uint32_t i = 0; i < n; i++) {
		char word[96];
		int used;

		for (const char *at = words;
		     sscanf(at, "%95s%n", word, &used) == 1; at += used)
			add("%s%u.%s", prefix, i, word);
	}
}

/* One byte for each tensor. */
static void write_checkpoint(void)
{
	uint64_t n;
	FILE *to = fopen(file, "we");
	char *text = NULL;
	size_t bytes;
	FILE *header = open_memstream(&text, &bytes);

	if (to == NULL || header == NULL)
		abort();
	for (uint32_t i = 0; i < n_names; i++)
		fprintf(header,
			"%c\"%s\":{\"dtype\":\"U8\",\"shape\":[1],"
			"\"data_offsets\":[%u,%u]}",
			i > 0 ? ',' : '{', names[i], i, i + 1);
	fputc('}', header);
	fclose(header);
	n = bytes;
	OK(fwrite(&n, 8, 1, to) == 1 && fwrite(text, 1, bytes, to) == bytes &&
	   fflush(to) == 0 &&
	   ftruncate(fileno(to), (off_t)(8 + bytes + n_names)) == 0);
	fclose(to);
	free(text);
}

static void begin(void)
{
	for (uint32_t i = 0; i < n_names; i++)
		free(names[i]);
	n_names = 0;
}

#define ATTENTION                                          \
	"self_attn.q_proj.weight self_attn.k_proj.weight " \
	"self_attn.v_proj.weight self_attn.o_proj.weight " \
	"input_layernorm.weight post_attention_layernorm.weight "
#define MLP "mlp.gate_proj.weight mlp.up_proj.weight mlp.down_proj.weight "
#define BIAS \
	"self_attn.q_proj.bias self_attn.k_proj.bias self_attn.v_proj.bias "

static void make_llama_2_70b(void)
{
	add("model.embed_tokens.weight");
	add_layers("model.layers.", 80,
		   ATTENTION MLP "self_attn.rotary_emb.inv_freq");
	add("model.norm.weight");
	add("lm_head.weight");
}

static void make_gpt2(void)
{
	add("wte.weight");
	add("wpe.weight");
	add_layers("h.", 12,
		   "attn.bias attn.c_attn.weight attn.c_attn.bias "
		   "attn.c_proj.weight attn.c_proj.bias ln_1.weight ln_1.bias "
		   "ln_2.weight ln_2.bias mlp.c_fc.weight mlp.c_fc.bias "
		   "mlp.c_proj.weight mlp.c_proj.bias");
	add("ln_f.weight");
	add("ln_f.bias");
}

static void make_qwen_moe(void)
{
	add("model.embed_tokens.weight");
	add_layers("model.layers.", 24,
		   ATTENTION BIAS
		   "mlp.gate.weight mlp.shared_expert_gate.weight "
		   "mlp.shared_expert.gate_proj.weight "
		   "mlp.shared_expert.up_proj.weight "
		   "mlp.shared_expert.down_proj.weight");
	for (uint32_t i = 0; i < 24; i++)
		for (uint32_t k = 0; k < 60; k++) {
			add("model.layers.%u.mlp.experts.%u.gate_proj.weight",
			    i, k);
			add("model.layers.%u.mlp.experts.%u.up_proj.weight", i,
			    k);
			add("model.layers.%u.mlp.experts.%u.down_proj.weight",
			    i, k);
		}
	add("model.norm.weight");
	add("lm_head.weight");
}

static void make_qwen_tied(void)
{
	add("model.embed_tokens.weight");
	add_layers("model.layers.", 24, ATTENTION BIAS MLP);
	add("model.norm.weight");
}

static void make_llava(void)
{
	add("language_model.lm_head.weight");
	add("language_model.model.embed_tokens.weight");
	add_layers("language_model.model.layers.", 32, ATTENTION MLP);
	add("language_model.model.norm.weight");
	for (int i = 1; i <= 2; i++) {
		add("multi_modal_projector.linear_%d.weight", i);
		add("multi_modal_projector.linear_%d.bias", i);
	}
	add("vision_tower.vision_model.embeddings.class_embedding");
	add("vision_tower.vision_model.embeddings.patch_embedding.weight");
	add("vision_tower.vision_model.embeddings.position_embedding.weight");
	add_layers("vision_tower.vision_model.encoder.layers.", 24,
		   "layer_norm1.weight layer_norm1.bias self_attn.q_proj.bias "
		   "self_attn.q_proj.weight mlp.fc1.weight mlp.fc1.bias");
	add("vision_tower.vision_model.pre_layrnorm.weight");
	add("vision_tower.vision_model.post_layernorm.bias");
}

/* ---- their maps ---------------------------------------------------------- */

static int row_of(uint32_t row)
{
	return row >= n_cards ? RULES_CPU : (int)row;
}

/* The row that a tensor has to be on: layers come behind @prefix. */
/* The head and the norm before it are with the last layer. */
static bool is_last(const char *name)
{
	static const char *const last[] = { "lm_head.weight",
					    "model.norm.weight",
					    "language_model.lm_head.weight",
					    "language_model.model.norm.weight",
					    "ln_f.weight",
					    "ln_f.bias" };

	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
		if (strcmp(name, last[i]) == 0)
			return true;
	return false;
}

static int wanted_row(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);
	char *end;
	unsigned long layer;

	if (is_last(name))
		return row_of(rows[n_layers - 1]);
	if (strncmp(name, prefix, n) != 0)
		return row_of(base_row);
	layer = strtoul(name + n, &end, 10);
	return end > name + n && *end == '.' ? row_of(rows[layer])
					     : row_of(base_row);
}

static struct gpumap_engine_settings *made(const char *spec, uint32_t base)
{
	struct gpumap_engine_settings *s;

	table_map(spec);
	base_row = base;
	if (!EQ(table_export(GPUMAP_ENGINE_ACCELERATE, 0, &s), 0)) {
		NOTE("%s", gpumap_refusal(NULL));
		exit(tap_done());
	}
	return s;
}

/* Each tensor of the files is in one module, which is where it has to be. */
static void covers(const char *prefix, const char *spec, uint32_t base)
{
	struct gpumap_engine_settings *s = made(spec, base);
	uint32_t n_wrong = 0;

	for (uint32_t i = 0; i < n_names; i++) {
		uint32_t n;
		int row = rules_accelerate(s, names[i], &n);

		if ((n != 1 || row != wanted_row(names[i], prefix)) &&
		    n_wrong++ < 5)
			NOTE("%s is in %u modules, on %d", names[i], n, row);
	}
	NOTE("%u tensors on %s", n_names, spec);
	EQ(n_wrong, 0);
	gpumap_engine_free(s);
}

static const struct form {
	void (*make)(void);
	const char *prefix;
	const char *specs[3];
} forms[] = {
	{ make_llama_2_70b,
	  "model.layers.",
	  { "0:40;1:40", "1:80", "4:10;0:70" } },
	{ make_gpt2, "h.", { "0:6;1:6", "1:12", "0:3;1:3;0:3;4:3" } },
	{ make_qwen_moe, "model.layers.", { "2:24", "3:1;2:23", "0:12;1:12" } },
	{ make_qwen_tied, "model.layers.", { "0:12;1:12", "4:24", "3:24" } },
	{ make_llava,
	  "language_model.model.layers.",
	  { "0:16;1:16", "1:31;2:1", "4:16;3:16" } },
};

static void every_tensor_is_somewhere(void)
{
	table_make(4, 1, false);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		begin();
		forms[i].make();
		write_checkpoint();
		for (int k = 0; k < 3; k++)
			for (uint32_t base = 0; base < 5; base += 2)
				covers(forms[i].prefix, forms[i].specs[k],
				       base);
	}
}

static int at(const struct gpumap_engine_settings *s, const char *tensor)
{
	uint32_t n;

	return rules_accelerate(s, tensor, &n);
}

/* Modules that files leave out are on the base row. */
static void what_files_leave_out_is_there(void)
{
	struct gpumap_engine_settings *s;

	begin();
	make_qwen_tied();
	write_checkpoint();
	s = made("0:12;1:12", 2);
	EQ(at(s, "lm_head.weight"), 2);
	EQ(s->n_notes, 1);
	OK(strstr(s->notes[0], "no head") != NULL);
	gpumap_engine_free(s);
	begin();
	make_gpt2();
	write_checkpoint();
	s = made("0:6;1:6", 2);
	EQ(at(s, "lm_head.weight"), 2);
	EQ(at(s, "transformer.h.7.ln_1.weight"), 1);
	EQ(at(s, "transformer.wpe.weight"), 2);
	EQ(s->exact, 1);
	gpumap_engine_free(s);
	begin();
	make_llava();
	write_checkpoint();
	s = made("0:16;1:16", 2);
	EQ(at(s, "lm_head.weight"), 1);
	EQ(at(s, "model.language_model.layers.20.mlp.up_proj.weight"), 1);
	EQ(at(s, "model.language_model.norm.weight"), 1);
	EQ(at(s, "model.vision_tower.pre_layrnorm.weight"), 2);
	EQ(s->exact, 0); /* as other models may have yet other names */
	EQ(s->n_notes, 2);
	gpumap_engine_free(s);
	begin();
	add("visual.merger.weight");
	add("lm_head.weight");
	add_layers("model.layers.", 4, MLP);
	write_checkpoint();
	s = made("0:2;1:2", 0);
	EQ(s->exact, 0);
	EQ(s->n_notes, 1);
	gpumap_engine_free(s);
}

/* Names that begin, or end, as another's do. */
static void whole_names_tell_modules_apart(void)
{
	struct gpumap_engine_settings *s;

	begin();
	add("model.norm.weight");
	add("model.norm_ahead.weight");
	add_layers("model.layers.", 2, MLP);
	write_checkpoint();
	s = made("0:2", 1);
	EQ(at(s, "model.norm.weight"), 0);
	EQ(at(s, "model.norm_ahead.weight"), 1);
	EQ(at(s, "lm_head.weight"), 1);
	gpumap_engine_free(s);
}

static void names_are_escaped(void)
{
	struct gpumap_engine_settings *s;

	begin();
	add("a\\\"b\\n.weight");
	add_layers("layers.", 2, "w");
	write_checkpoint();
	s = made("0:2", 0);
	STR(s->file, "{\"layers.0\": 0, \"layers.1\": 0, \"a\\\"b\\u000a\": 0, "
		     "\"model.layers.0\": 0, \"model.layers.1\": 0, "
		     "\"model.a\\\"b\\u000a\": 0, \"lm_head\": 0}");
	gpumap_engine_free(s);
}

static void layers_of_the_host_are_told(void)
{
	struct gpumap_engine_settings *s;

	begin();
	make_llama_2_70b();
	write_checkpoint();
	s = made("4:10;1:70", 0);
	EQ(s->exact, 0);
	EQ(s->n_notes, 1);
	OK(strstr(s->notes[0], "copies them to one of") != NULL);
	gpumap_engine_free(s);
	s = made("4:80", 4);
	EQ(s->exact, 1);
	STR(rules_variable(s, "CUDA_VISIBLE_DEVICES"), "-1");
	gpumap_engine_free(s);
}

static void other_models_are_refused(void)
{
	struct gpumap_engine_settings *s;

	table_map("0:79");
	EQ(table_export(GPUMAP_ENGINE_ACCELERATE, 0, &s), -EINVAL);
	STR(gpumap_refusal(NULL),
	    "layer map \"of this request\" has 79 layers, the model 80 "
	    "(model.layers.N.); make a map for this model");
	begin();
	add_layers("blk.", 79, "attn_q.weight");
	write_checkpoint();
	EQ(table_export(GPUMAP_ENGINE_ACCELERATE, 0, &s), -EINVAL);
	OK(strstr(gpumap_refusal(NULL), "has the names of GGUF") != NULL);
	model_path = "no-such-model";
	EQ(table_export(GPUMAP_ENGINE_ACCELERATE, 0, &s), -ENOENT);
	OK(strstr(gpumap_refusal(NULL), "no-such-model") != NULL);
	model_path = NULL;
	EQ(table_export(GPUMAP_ENGINE_ACCELERATE, 0, &s), -EINVAL);
	OK(strstr(gpumap_refusal(NULL), "name the model") != NULL);
	model_path = file;
}

/* A file of three layers, the last of which is not the map's: llama.cpp counts
 * it, and without it would place the first layer on the CPU. */
static void layers_past_the_last_are_counted(void)
{
	static const uint64_t bytes[] = { 1, 1 };
	struct gpumap_engine_request request = {
		.size = sizeof(request),
		.engine = GPUMAP_ENGINE_LLAMA_CPP,
		.model = file,
		.rows = rows,
		.layer_bytes = bytes,
		.n_layers = 2,
		.base_row = 1,
		.devices = table,
		.n_devices = 5
	};
	struct gpumap_engine_settings *s = NULL;
	struct rules_place place;

	begin();
	add_layers("blk.", 3, "attn_q.weight");
	write_checkpoint();
	table_map("0:1;1:1");
	if (!EQ(gpumap_engine_export(NULL, NULL, &request, &s), 0))
		return;
	OK(rules_llama_cpp(s, 3, &place));
	EQ(place.weights[0], 0);
	EQ(place.weights[1], 1);
	EQ(place.weights[2], 1);
	EQ(place.weights[3], 1);
	EQ(s->exact, 1);
	OK(strstr(s->notes[1], "The 1 layers of the file past the map's") !=
	   NULL);
	gpumap_engine_free(s);
}

TAP_CASE()
{
	snprintf(file, sizeof(file), "engine-modules.%d.safetensors",
		 (int)getpid());
	model_path = file;
	every_tensor_is_somewhere();
	what_files_leave_out_is_there();
	whole_names_tell_modules_apart();
	names_are_escaped();
	layers_of_the_host_are_told();
	other_models_are_refused();
	layers_past_the_last_are_counted();
	unlink(file);
	begin();
	return tap_done();
}

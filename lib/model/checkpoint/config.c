/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Find the facts that planning needs in a model's metadata.
 *
 * In config.json architectures use different keys, and models with vision or
 * audio have them in the part about their language model.  Metadata without the
 * number of layers are no error, because the tensors' names show it as well.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "lib/model/checkpoint/json_scan.h"

#define NUMBER_MAX (UINT64_C(1) << 24) /* most of any one number */
#define PASSES_MAX 1024u
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define AGAIN      "; correct config.json"

/* ---- config.json --------------------------------------------------------- */

/* The keys that are read: of the same fact in the order of the search. */
static const char *const keys[] = {
	/* layers */
	"decoder_layers", "num_decoder_layers", "num_hidden_layers", "n_layer",
	"n_layers", "num_layers",
	/* width */
	"hidden_size", "n_embd", "d_model", "n_embed",
	/* heads */
	"decoder_attention_heads", "num_attention_heads", "n_head", "n_heads",
	"num_heads",
	/* heads of keys and values */
	"num_key_value_heads", "num_kv_heads", "n_head_kv",
	"multi_query_group_num", "kv_n_heads",
	/* of one head */
	"head_dim", "kv_channels", "d_kv",
	/* tokens of a window */
	"sliding_window", "sliding_window_size", "attention_window_size",
	"attention_chunk_size",
	/* of so many layers one has no window */
	"sliding_window_pattern", "global_attn_every_n_layers",
	/* width of a recurrence */
	"linear_key_head_dim", "mamba_d_state", "ssm_state_size", "state_size",
	/* the rest */
	"num_nextn_predict_layers", "kv_lora_rank", "qk_rope_head_dim",
	"qk_nope_head_dim", "v_head_dim", "multi_query",
	"new_decoder_architecture", "use_sliding_window", "max_window_layers",
	"num_kv_shared_layers", "max_source_positions",
	"full_attention_interval", "image_size", "patch_size", "max_num_tiles",
	"loop_layer_index_start", "loop_layer_index_end", "loop_num_passes"
};

/* Places in @keys. */
enum {
	LAYERS = 0,
	WIDTH = 6,
	HEADS = 10,
	KV_HEADS = 15,
	DIM = 20,
	WINDOW = 23,
	PATTERN = 27,
	STATE = 29,
	EXTRA = 33,
	LORA_RANK,
	ROPE_DIM,
	NOPE_DIM,
	V_DIM,
	MULTI_QUERY,
	NEW_ARCHITECTURE,
	USE_WINDOW,
	FULL_LAYERS,
	SHARED,
	SOURCE_TOKENS,
	INTERVAL,
	IMAGE,
	PATCH,
	TILES,
	LOOP_FIRST,
	LOOP_END,
	LOOP_PASSES,
	N_KEYS
};

_Static_assert(N_KEYS == COUNT(keys), "each has a place");

/* The value of a key.  A whole number that is negative or of more than 64 bits
 * is UINT64_MAX. */
struct value {
	enum { ABSENT, NOTHING, WHOLE, TRUE, OTHER } kind;
	uint64_t number;
};

/* The file is part 0; the language model's is one of the next.  Each may have
 * one about its attention, as MPT's has, so many places further on.  The part
 * that thinks has one of its own in a model that also speaks, as Qwen's do.
 * The last is the one about images. */
enum { LANGUAGE = 1, THINKER = 4, ATTENTION = 7, VISION = 14, N_PARTS = 15 };

static const char *const language_keys[] = {
	"text_config",    "llm_config", "language_config",
	"thinker_config", "decoder",    "decoder_config"
};

struct part {
	struct value values[N_KEYS];
	const char *type;
	uint32_t state_bytes; /* of the type of a recurrence; 0: not known */
	uint32_t n_kinds;     /* that it lists; 0: none */
	size_t list;          /* in which of the lists */
	uint8_t kinds[GM_WEIGHTS_KINDS];
};

static bool read_value(struct gm_scan *scan, struct value *value)
{
	struct gm_scan before;
	bool is_whole = gm_json_scan_is(scan, "-0123456789");
	uint64_t number;

	before = *scan;
	*value = (struct value){ .kind = OTHER };
	if (is_whole && gm_json_scan_number(scan, &number)) {
		*value = (struct value){ WHOLE, number };
		return true;
	}
	*scan = before;
	if (!gm_json_scan_skip(scan))
		return false;
	for (const char *at = before.at; at < scan->at; at++)
		is_whole &= *at == '-' || (*at >= '0' && *at <= '9');
	if (is_whole)
		*value = (struct value){ WHOLE, UINT64_MAX };
	else if (*before.at == 't')
		value->kind = TRUE;
	else if (*before.at == 'n')
		value->kind = NOTHING;
	return true;
}

/* The lists of a kind for each layer.  Numbers say which layers differ. */
static const struct {
	const char *key;
	uint8_t of_0, of_1;
} lists[] = {
	{ "layer_types", GM_LAYER_UNKNOWN, GM_LAYER_UNKNOWN },
	{ "layers_block_type", GM_LAYER_UNKNOWN, GM_LAYER_UNKNOWN },
	{ "hybrid_layer_pattern", GM_LAYER_UNKNOWN, GM_LAYER_WINDOW },
	{ "attn_type_list", GM_LAYER_STATE, GM_LAYER_UNKNOWN },
};

static const char *const with_window[] = {
	"sliding_attention", "chunked_attention", "hybrid_sliding",
	"compressed_sparse_attention", "heavily_compressed_attention"
};

static const char *const with_state[] = { "mamba", "mamba2", "recurrent",
					  "conv", "linear_attention" };

static uint8_t kind_named(const char *name)
{
	for (size_t i = 0; i < COUNT(with_window); i++)
		if (strcmp(name, with_window[i]) == 0)
			return GM_LAYER_WINDOW;
	for (size_t i = 0; i < COUNT(with_state); i++)
		if (strcmp(name, with_state[i]) == 0)
			return GM_LAYER_STATE;
	if (strcmp(name, "moe") == 0 || strcmp(name, "mlp") == 0)
		return GM_LAYER_NONE;
	return strcmp(name, "hybrid") == 0 || strcmp(name, "attention") == 0 ||
			       strcmp(name, "full_attention") == 0
		       ? GM_LAYER_FULL
		       : GM_LAYER_UNKNOWN;
}

static bool read_kind(struct gm_scan *scan, size_t list, uint8_t *ret_kind)
{
	struct value value;
	char *name;

	*ret_kind = GM_LAYER_UNKNOWN;
	if (gm_json_scan_is(scan, "\"")) {
		if (!gm_json_scan_string(scan, &name))
			return false;
		*ret_kind = kind_named(name);
		return true;
	}
	if (!read_value(scan, &value))
		return false;
	if (value.kind == WHOLE)
		*ret_kind =
			value.number == 0 ? lists[list].of_0 : lists[list].of_1;
	return true;
}

/* Read a list of kinds.  The first of the lists counts. */
static bool read_kinds(struct gm_scan *scan, size_t list, struct part *part)
{
	bool counts = part->n_kinds == 0 || list <= part->list;
	uint32_t n = 0;
	uint8_t kind;
	int ret;

	if (!gm_json_scan_enter(scan, '['))
		return false;
	while ((ret = gm_json_scan_item(scan)) == 1) {
		if (!read_kind(scan, list, &kind))
			return false;
		if (counts && n < GM_WEIGHTS_KINDS)
			part->kinds[n++] = kind;
	}
	if (counts) {
		part->n_kinds = n;
		part->list = list;
	}
	return ret == 0;
}

static size_t find_list(const char *key)
{
	size_t i = 0;

	while (i < COUNT(lists) && strcmp(key, lists[i].key) != 0)
		i++;
	return i;
}

static bool read_state_type(struct gm_scan *scan, struct part *part)
{
	char *name;

	if (!gm_json_scan_string(scan, &name))
		return false;
	part->state_bytes =
		strcmp(name, "float32") == 0 ? 4
		: strcmp(name, "bfloat16") == 0 || strcmp(name, "float16") == 0
			? 2
			: 0;
	return true;
}

/* The part that an object with this key in part @i is; 0: none. */
static size_t part_of(size_t i, const char *key)
{
	if (i < ATTENTION && strcmp(key, "attn_config") == 0)
		return i + ATTENTION;
	if (i == 0 && strcmp(key, "vision_config") == 0)
		return VISION;
	for (size_t j = 0; j < COUNT(language_keys); j++)
		if (strcmp(key, language_keys[j]) == 0 &&
		    (i == 0 || (i == THINKER && LANGUAGE + j != THINKER)))
			return LANGUAGE + j;
	return 0;
}

/* Read the object that is part @i.  A later value of the same key replaces the
 * earlier one. */
static bool read_part(struct gm_scan *scan, struct part parts[N_PARTS],
		      size_t i)
{
	char *key, *type;
	int ret;

	if (!gm_json_scan_enter(scan, '{'))
		return false;
	while ((ret = gm_json_scan_key(scan, &key)) == 1) {
		size_t at = 0, other = part_of(i, key);
		size_t list = find_list(key);
		bool is_good;

		while (at < N_KEYS && strcmp(key, keys[at]) != 0)
			at++;
		if (other != 0)
			parts[other] = (struct part){ .type = NULL };
		if (at < N_KEYS) {
			is_good = read_value(scan, &parts[i].values[at]);
		} else if (other != 0 && gm_json_scan_is(scan, "{")) {
			is_good = read_part(scan, parts, other);
		} else if (list < COUNT(lists) && gm_json_scan_is(scan, "[")) {
			is_good = read_kinds(scan, list, &parts[i]);
		} else if (strcmp(key, "model_type") == 0 &&
			   gm_json_scan_is(scan, "\"")) {
			is_good = gm_json_scan_string(scan, &type);
			parts[i].type = type;
		} else if ((strcmp(key, "mamba_ssm_dtype") == 0 ||
			    strcmp(key, "mamba_ssm_cache_dtype") == 0) &&
			   gm_json_scan_is(scan, "\"")) {
			is_good = read_state_type(scan, &parts[i]);
		} else {
			is_good = gm_json_scan_skip(scan);
		}
		if (!is_good)
			return false;
	}
	return ret == 0;
}

/* A search in a part, and the first error of all. */
struct search {
	const struct part *part;
	struct gm_reason *why;
	int ret;
	bool is_lenient;  /* a value that is no number is unknown, not wrong */
	bool is_optional; /* and so is any number that cannot be */
	bool has_unknown;
};

/* 0 if there is none. */
static uint32_t number(struct search *s, size_t key, uint64_t least,
		       uint64_t most)
{
	const struct value *value = &s->part->values[key];

	if (s->ret != 0 || value->kind <= NOTHING)
		return 0;
	if (s->is_lenient && value->kind != WHOLE) {
		/* perhaps a list, one for each layer */
		s->has_unknown = true;
		return 0;
	}
	if (value->kind == WHOLE && value->number >= least &&
	    value->number <= most)
		return (uint32_t)value->number;
	if (s->is_optional)
		return 0;
	s->ret = gm_reason_set(s->why, -EINVAL,
			       "config.json: %s is not a whole number from "
			       "%u to %u" AGAIN,
			       keys[key], (unsigned int)least,
			       (unsigned int)most);
	return 0;
}

/* The first that is not 0 of the keys from @key to @end - 1. */
static uint32_t first_number(struct search *s, size_t key, size_t end)
{
	uint32_t value = 0;

	for (; key < end && value == 0; key++)
		value = number(s, key, 0, NUMBER_MAX);
	return value;
}

static uint32_t count_kv_heads(struct search *s, uint32_t n_heads)
{
	const struct value *values = s->part->values;
	uint32_t n;

	/*
	 * Falcon states as many as it has heads of queries, but shares one,
	 * except in its later design.  GPT BigCode does the same.
	 */
	if (values[MULTI_QUERY].kind == TRUE &&
	    values[NEW_ARCHITECTURE].kind != TRUE)
		return 1;
	n = first_number(s, KV_HEADS, DIM);
	if (n == 0) {
		s->part += ATTENTION;
		n = first_number(s, KV_HEADS, DIM);
		s->part -= ATTENTION;
	}
	return n != 0 ? n : n_heads;
}

/* DeepSeek's attention: keys and values are stored compressed. */
static bool read_mla(struct search *s, struct gm_weights_config *config)
{
	uint32_t rank = number(s, LORA_RANK, 0, NUMBER_MAX);
	uint32_t dim = number(s, ROPE_DIM, 0, NUMBER_MAX);

	if (rank == 0 || dim == 0)
		return false;
	config->k_dim = number(s, NOPE_DIM, 0, NUMBER_MAX) + dim;
	config->v_dim = number(s, V_DIM, 0, NUMBER_MAX);
	config->kv_lora_rank = rank;
	config->kpe_head_dim = dim;
	return config->v_dim > 0;
}

static void read_attention(struct search *s, struct gm_weights_config *config)
{
	struct gm_weights_config found = *config;
	uint32_t width;

	s->is_lenient = true;
	width = first_number(s, WIDTH, HEADS);
	found.n_heads = first_number(s, HEADS, KV_HEADS);
	config->n_heads = found.n_heads;
	if (found.n_heads == 0)
		return;
	found.n_kv_heads = count_kv_heads(s, found.n_heads);
	if (!read_mla(s, &found)) {
		found.k_dim = first_number(s, DIM, WINDOW);
		found.says_dim = found.k_dim > 0;
		if (!found.says_dim)
			found.k_dim = width / found.n_heads;
		found.v_dim = found.k_dim;
	}
	if (found.k_dim > 0 && !s->has_unknown)
		*config = found;
}

/*
 * Which layers of a model have a window where its metadata do not list them: of
 * @full_every layers the last has none, or the first; 0: all have one.  The
 * classes of transformers say so, and llama.cpp where the name is that of a
 * GGUF file; and how large a window is of which the metadata say nothing.
 */
static const struct window {
	const char *type;
	uint32_t full_every;
	uint32_t tokens;
	bool is_first;
} windows[] = {
	{ "afmoe", 4, 1024, false },
	{ "cohere2", 4, 4096, false },
	{ "cohere2_moe", 4, 4096, false },
	{ "cwm", 4, 8192, true },
	{ "deepseek_v4", 0, 128, false },
	{ "exaone4", 4, 0, false },
	{ "exaone_moe", 4, 0, false },
	{ "gemma2", 2, 4096, false },
	{ "gemma3", 6, 0, false },
	{ "gemma3_text", 6, 4096, false },
	{ "gemma3n", 5, 0, false },
	{ "gemma3n_text", 5, 512, false },
	{ "gpt-oss", 2, 128, false },
	{ "gpt_oss", 2, 128, false },
	{ "llama4", 4, 8192, false },
	{ "llama4_text", 4, 8192, false },
	{ "ministral", 0, 4096, false },
	{ "mistral", 0, 4096, false },
	{ "mixtral", 0, 0, false },
	{ "moshi", 0, 3000, false },
	{ "olmo2", 4, 0, false },
	{ "olmo3", 4, 4096, false },
	{ "phi3", 0, 0, false },
	{ "phimoe", 0, 0, false },
	{ "recurrent_gemma", 0, 2048, false },
	{ "starcoder2", 0, 0, false },
};

static const struct window *find_window(const char *type)
{
	for (size_t i = 0; type != NULL && i < COUNT(windows); i++)
		if (strcmp(type, windows[i].type) == 0)
			return &windows[i];
	return NULL;
}

/* Set the kind of layers that are not listed. */
static void set_kinds(struct gm_weights_config *config, uint32_t first,
		      uint32_t full_every, uint8_t kind)
{
	for (uint32_t i = first; i < GM_WEIGHTS_KINDS; i++)
		if (full_every == 0 || (i + 1) % full_every != 0)
			config->kinds[i] = kind;
}

/* Likewise of a type that is known. */
static void set_windows(struct gm_weights_config *config,
			const struct window *known, uint64_t every)
{
	if (every == 0 || every >= NUMBER_MAX || known->full_every == 0)
		every = known->full_every;
	set_kinds(config, 0, (uint32_t)every, GM_LAYER_WINDOW);
	for (uint32_t i = 0; known->is_first && i < GM_WEIGHTS_KINDS; i++)
		config->kinds[i] =
			i % every != 0 ? GM_LAYER_WINDOW : GM_LAYER_UNKNOWN;
}

static void read_windows(struct search *s, struct gm_weights_config *config)
{
	const struct value *values = s->part->values;
	const struct window *known = find_window(s->part->type);
	uint32_t every, interval;
	size_t stated = WINDOW;

	while (stated < PATTERN && values[stated].kind == ABSENT)
		stated++;
	config->window = first_number(s, WINDOW, PATTERN);
	memcpy(config->kinds, s->part->kinds, sizeof(config->kinds));
	every = first_number(s, PATTERN, STATE);
	if (known != NULL && stated == PATTERN)
		config->window = known->tokens;
	interval = number(s, INTERVAL, 1, NUMBER_MAX);
	if (s->part->n_kinds == 0 && interval > 0)
		set_kinds(config, 0, interval, GM_LAYER_STATE);
	if (config->window == 0 || s->part->n_kinds > 0)
		return;
	if (values[USE_WINDOW].kind != ABSENT ||
	    values[FULL_LAYERS].kind != ABSENT) {
		/* Qwen's first layers have none, or all; how many there are has
		 * to be said. */
		if (values[USE_WINDOW].kind == TRUE &&
		    values[FULL_LAYERS].kind == WHOLE &&
		    values[FULL_LAYERS].number <= NUMBER_MAX)
			set_kinds(config, number(s, FULL_LAYERS, 0, NUMBER_MAX),
				  0, GM_LAYER_WINDOW);
	} else if (known != NULL) {
		set_windows(config, known, every);
	} else if (every > 0) {
		set_kinds(config, 0, every, GM_LAYER_WINDOW);
	}
}

static void read_recurrence(struct search *s, struct gm_weights_config *config)
{
	config->state_width = first_number(s, STATE, EXTRA);
	config->state_bytes = s->part->state_bytes;
	config->n_shared = number(s, SHARED, 0, GM_WEIGHTS_LAYERS);
	config->loop_first = number(s, LOOP_FIRST, 0, GM_WEIGHTS_LAYERS);
	config->loop_end = number(s, LOOP_END, 0, GM_WEIGHTS_LAYERS);
	config->n_passes = number(s, LOOP_PASSES, 0, PASSES_MAX);
	if (config->n_passes > 0 && config->loop_end == 0)
		config->loop_end = GM_WEIGHTS_LAYERS;
	s->is_optional = s->is_lenient = false; /* fewer tokens may be kept */
	config->n_cross = number(s, SOURCE_TOKENS, 0, NUMBER_MAX);
}

static int find_facts(const struct part *part, struct gm_reason *why,
		      struct gm_weights_config *config)
{
	struct search s = { .part = part, .why = why };
	uint32_t before = config->n_layers;
	bool has_heads = false;

	for (size_t key = HEADS; key < KV_HEADS; key++)
		has_heads |= part->values[key].kind == WHOLE;
	for (size_t key = LAYERS; key < WIDTH && config->n_layers == 0; key++)
		config->n_layers = number(&s, key, 1, GM_WEIGHTS_LAYERS);
	if (config->n_layers == 0 && part->n_kinds < GM_WEIGHTS_KINDS)
		config->n_layers = part->n_kinds;
	/* The number may be in one part, and the heads in another. */
	if (config->n_layers != before || has_heads) {
		config->n_extra = number(&s, EXTRA, 0, GM_WEIGHTS_LAYERS);
		read_attention(&s, config);
		/* Without these a layer is charged for more. */
		s.is_optional = true;
		read_windows(&s, config);
		read_recurrence(&s, config);
	}
	if (part->type != NULL && config->type[0] == '\0')
		snprintf(config->type, sizeof(config->type), "%s", part->type);
	return s.ret;
}

/* The tokens that a model with cross-attention makes of an image. */
static void read_vision(const struct part *part,
			struct gm_weights_config *config)
{
	const struct value *image = &part->values[IMAGE];
	const struct value *patch = &part->values[PATCH];
	const struct value *tiles = &part->values[TILES];
	uint64_t side;

	if (image->kind != WHOLE || patch->kind != WHOLE ||
	    tiles->kind != WHOLE || image->number > NUMBER_MAX ||
	    patch->number == 0 || tiles->number > 64)
		return;
	side = image->number / patch->number;
	if (side < 4096)
		config->n_cross = (uint32_t)((side * side + 1) * tiles->number);
}

static int read_json(const struct gm_weights_meta *meta, struct gm_reason *why,
		     struct gm_weights_config *config)
{
	struct gm_scan scan = gm_scan_begin(meta->data, meta->bytes);
	struct part parts[N_PARTS] = { { .type = NULL } };
	int ret = 0;

	scan.python = true;
	if (!read_part(&scan, parts, 0) || !gm_json_scan_at_end(&scan))
		return gm_reason_set(why, -EINVAL,
				     "config.json is not the JSON that it "
				     "should be; fetch or write it again");
	for (size_t i = 0; i < ATTENTION; i++)
		if (ret == 0 && (config->n_layers == 0 || config->n_heads == 0))
			ret = find_facts(&parts[i], why, config);
	/* Engines that else have states of the model's type have these in
	 * float32. */
	if (config->state_bytes == 0 &&
	    (strcmp(config->type, "kimi_linear") == 0 ||
	     strcmp(config->type, "nemotron_h") == 0))
		config->state_bytes = 4;
	if (ret == 0)
		read_vision(&parts[VISION], config);
	return ret;
}

/* ---- GGUF ---------------------------------------------------------------- */

/* The pairs of a GGUF file whose keys begin with its architecture's name. */
struct facts {
	struct gm_weights_text architecture;
	struct gm_weights_text kind; /* general.type; "" or "model" */
	uint64_t n_layers, n_extra, width, n_heads, n_kv_heads, k_dim, v_dim;
	uint64_t kv_lora_rank, rope_dim, state_width, n_shared, pattern;
	uint64_t window; /* UINT64_MAX: it is not said */
	uint64_t interval;
	bool lists_windows;
	uint8_t kinds[GM_WEIGHTS_KINDS];
};

/* Set the kind of those layers of which the list says that they have a window,
 * or no head. */
static void take_kinds(struct facts *f, const struct gm_weights_pair *pair,
		       bool of_zero, uint8_t kind)
{
	for (uint32_t i = 0; i < pair->n_items && i < GM_WEIGHTS_KINDS; i++)
		if ((gm_weights_item(pair, i) == 0) == of_zero)
			f->kinds[i] = kind;
}

/* The most that the list has for a layer. */
static uint64_t find_most(const struct gm_weights_pair *pair)
{
	uint64_t most = 0;

	for (uint64_t i = 0; i < pair->n_items; i++)
		if (gm_weights_item(pair, i) > most)
			most = gm_weights_item(pair, i);
	return most;
}

static void take_list(struct facts *f, const struct gm_weights_pair *pair,
		      uint64_t *to)
{
	if (to == &f->pattern) {
		f->lists_windows = true;
		take_kinds(f, pair, false, GM_LAYER_WINDOW);
		return;
	}
	*to = find_most(pair);
	if (to == &f->n_kv_heads)
		take_kinds(f, pair, true, GM_LAYER_NONE);
}

static void take_pair(void *data, const struct gm_weights_pair *pair)
{
	struct facts *f = data;
	struct gm_weights_text suffix = pair->key;
	const struct {
		const char *suffix;
		uint64_t *to;
	} table[] = {
		{ ".block_count", &f->n_layers },
		{ ".nextn_predict_layers", &f->n_extra },
		{ ".embedding_length", &f->width },
		{ ".attention.head_count", &f->n_heads },
		{ ".attention.head_count_kv", &f->n_kv_heads },
		{ ".attention.key_length", &f->k_dim },
		{ ".attention.value_length", &f->v_dim },
		{ ".attention.kv_lora_rank", &f->kv_lora_rank },
		{ ".rope.dimension_count", &f->rope_dim },
		{ ".ssm.state_size", &f->state_width },
		{ ".wkv.head_size", &f->state_width },
		{ ".attention.shared_kv_layers", &f->n_shared },
		{ ".attention.sliding_window", &f->window },
		{ ".attention.sliding_window_pattern", &f->pattern },
		{ ".full_attention_interval", &f->interval },
	};

	if (pair->text.at != NULL &&
	    gm_weights_text_is(pair->key, "general.architecture"))
		f->architecture = pair->text;
	if (pair->text.at != NULL &&
	    gm_weights_text_is(pair->key, "general.type"))
		f->kind = pair->text;
	if (f->architecture.n == 0 || suffix.n < f->architecture.n ||
	    memcmp(suffix.at, f->architecture.at, f->architecture.n) != 0)
		return;
	suffix.at += f->architecture.n;
	suffix.n -= f->architecture.n;
	for (size_t i = 0; i < COUNT(table); i++) {
		if (!gm_weights_text_is(suffix, table[i].suffix))
			continue;
		if (pair->is_number)
			*table[i].to = pair->number;
		else if (pair->is_list)
			take_list(f, pair, table[i].to);
	}
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void read_pair_windows(const struct facts *f,
			      struct gm_weights_config *config)
{
	const struct window *known = find_window(config->type);
	uint64_t window = f->window;

	if (window == UINT64_MAX && known != NULL)
		window = known->tokens;
	config->window = window < NUMBER_MAX ? (uint32_t)window : 0;
	if (f->interval > 0 && f->interval < NUMBER_MAX)
		set_kinds(config, 0, (uint32_t)f->interval, GM_LAYER_STATE);
	for (size_t i = 0; i < GM_WEIGHTS_KINDS; i++)
		if (f->kinds[i] != GM_LAYER_UNKNOWN)
			config->kinds[i] = f->kinds[i];
	/* llama.cpp has no window where every layer would have one. */
	if (config->window == 0 || f->lists_windows || known == NULL ||
	    known->full_every == 0)
		return;
	set_windows(config, known, f->pattern);
}

static int read_pairs(const struct gm_weights_meta *meta, struct gm_reason *why,
		      struct gm_weights_config *config)
{
	struct facts f = { .window = UINT64_MAX };
	int ret = 0;

	/* Twice: the architecture may come behind the keys that begin with
	 * it. */
	for (int pass = 0; pass < 2 && ret == 0; pass++)
		ret = gm_weights_gguf_pairs(meta, take_pair, &f);
	config->says_dim = f.k_dim > 0;
	if (f.n_heads > 0) {
		f.k_dim = f.k_dim != 0 ? f.k_dim : f.width / f.n_heads;
		f.v_dim = f.v_dim != 0 ? f.v_dim : f.width / f.n_heads;
	}
	if (ret != 0 || f.n_layers > GM_WEIGHTS_LAYERS ||
	    larger(larger(larger(f.n_heads, f.n_kv_heads),
			  larger(f.k_dim, f.v_dim)),
		   larger(larger(f.kv_lora_rank, f.rope_dim),
			  larger(f.state_width, f.n_shared))) > NUMBER_MAX)
		return gm_reason_set(why, -EINVAL,
				     "its metadata have numbers that cannot "
				     "be; fetch the file again");
	if (f.kind.n > 0 && !gm_weights_text_is(f.kind, "model"))
		return gm_reason_set(why, -EINVAL,
				     "its general.type is \"%.*s\", and no "
				     "language model; give the model's file",
				     (int)(f.kind.n < 40 ? f.kind.n : 40),
				     f.kind.at);
	/* The last blocks predict more tokens. */
	if (f.n_extra < f.n_layers) {
		config->n_extra = (uint32_t)f.n_extra;
		f.n_layers -= f.n_extra;
	}
	config->n_layers = (uint32_t)f.n_layers;
	config->n_heads = (uint32_t)f.n_heads;
	snprintf(config->type, sizeof(config->type), "%.*s",
		 (int)(f.architecture.n < sizeof(config->type)
			       ? f.architecture.n
			       : sizeof(config->type)),
		 f.architecture.at != NULL ? f.architecture.at : "");
	config->state_width = (uint32_t)f.state_width;
	config->n_shared = (uint32_t)f.n_shared;
	read_pair_windows(&f, config);
	if (larger(f.n_heads, f.n_kv_heads) == 0 || f.k_dim == 0)
		return 0;
	config->n_kv_heads =
		(uint32_t)(f.n_kv_heads != 0 ? f.n_kv_heads : f.n_heads);
	config->k_dim = (uint32_t)f.k_dim;
	config->v_dim = (uint32_t)(f.v_dim != 0 ? f.v_dim : f.k_dim);
	if (f.kv_lora_rank > 0 && f.rope_dim > 0) {
		config->kv_lora_rank = (uint32_t)f.kv_lora_rank;
		config->kpe_head_dim = (uint32_t)f.rope_dim;
	}
	return 0;
}

int gm_weights_config_read(const struct gm_weights_meta *meta,
			   struct gm_reason *why,
			   struct gm_weights_config *ret_config)
{
	struct gm_weights_config config = { .n_layers = 0 };
	int ret = meta->format == GPUMAP_META_GGUF
			  ? read_pairs(meta, why, &config)
			  : read_json(meta, why, &config);

	if (ret == 0)
		*ret_config = config;
	return ret;
}

int gm_weights_config_of(struct gm_weights *weights,
			 struct gm_weights_config *ret_config)
{
	struct gm_weights_meta meta = { .data = NULL };
	int ret = gm_weights_meta_read(weights, GM_WEIGHTS_GGUF_HEADER, &meta);

	if (ret == 0 && meta.data == NULL && !weights->is_file)
		ret = gm_reason_set(weights->why, -ENOENT,
				    "%sconfig.json is not there, or empty; "
				    "give the model's directory, with its "
				    "config.json",
				    gm_reason_path(weights->folder));
	if (ret == 0 && meta.data != NULL)
		ret = gm_weights_config_read(&meta, weights->why, ret_config);
	free(meta.data);
	return ret;
}

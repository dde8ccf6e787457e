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
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define AGAIN      "; correct config.json"

/* ---- config.json --------------------------------------------------------- */

/* The keys that are read: of the same fact in the order of the search. */
static const char *const keys[] = {
	/* layers */
	"num_hidden_layers", "n_layer", "n_layers", "num_layers",
	/* width */
	"hidden_size", "n_embd", "d_model",
	/* heads */
	"num_attention_heads", "n_head", "n_heads",
	/* heads of keys and values */
	"num_key_value_heads", "num_kv_heads", "n_head_kv",
	"multi_query_group_num", "kv_n_heads",
	/* of one head */
	"head_dim", "kv_channels",
	/* the rest */
	"num_nextn_predict_layers", "kv_lora_rank", "qk_rope_head_dim",
	"qk_nope_head_dim", "v_head_dim", "multi_query",
	"new_decoder_architecture"
};

/* Places in @keys. */
enum {
	LAYERS = 0,
	WIDTH = 4,
	HEADS = 7,
	KV_HEADS = 10,
	DIM = 15,
	EXTRA = 17,
	LORA_RANK,
	ROPE_DIM,
	NOPE_DIM,
	V_DIM,
	MULTI_QUERY,
	NEW_ARCHITECTURE,
	N_KEYS
};

_Static_assert(N_KEYS == COUNT(keys), "each has a place");

/* The value of a key.  A whole number that is negative or of more than 64 bits
 * is UINT64_MAX. */
struct value {
	enum { NOTHING, WHOLE, TRUE, OTHER } kind;
	uint64_t number;
};

/* The file is part 0; the language model's is one of the next.  Each may have
 * one about its attention, as MPT's has, so many places further on. */
enum { LANGUAGE = 1, ATTENTION = 4, N_PARTS = 8 };

static const char *const language_keys[] = { "text_config", "llm_config",
					     "language_config" };

struct part {
	struct value values[N_KEYS];
	const char *type;
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

/* The part that an object with this key in part @i is; 0: none. */
static size_t part_of(size_t i, const char *key)
{
	if (i < ATTENTION && strcmp(key, "attn_config") == 0)
		return i + ATTENTION;
	for (size_t j = 0; i == 0 && j < COUNT(language_keys); j++)
		if (strcmp(key, language_keys[j]) == 0)
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
		bool is_good;

		while (at < N_KEYS && strcmp(key, keys[at]) != 0)
			at++;
		if (other != 0)
			parts[other] = (struct part){ .type = NULL };
		if (at < N_KEYS) {
			is_good = read_value(scan, &parts[i].values[at]);
		} else if (other != 0 && gm_json_scan_is(scan, "{")) {
			is_good = read_part(scan, parts, other);
		} else if (strcmp(key, "model_type") == 0 &&
			   gm_json_scan_is(scan, "\"")) {
			is_good = gm_json_scan_string(scan, &type);
			parts[i].type = type;
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
	bool is_lenient; /* a value that is no number is unknown, not wrong */
	bool has_unknown;
};

/* 0 if there is none. */
static uint32_t number(struct search *s, size_t key, uint64_t least,
		       uint64_t most)
{
	const struct value *value = &s->part->values[key];

	if (s->ret != 0 || value->kind == NOTHING)
		return 0;
	if (s->is_lenient && value->kind != WHOLE) {
		/* perhaps a list, one for each layer */
		s->has_unknown = true;
		return 0;
	}
	if (value->kind == WHOLE && value->number >= least &&
	    value->number <= most)
		return (uint32_t)value->number;
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
		found.k_dim = first_number(s, DIM, EXTRA);
		if (found.k_dim == 0)
			found.k_dim = width / found.n_heads;
		found.v_dim = found.k_dim;
	}
	if (found.k_dim > 0 && !s->has_unknown)
		*config = found;
}

static int find_facts(const struct part *part, struct gm_reason *why,
		      struct gm_weights_config *config)
{
	struct search s = { .part = part, .why = why };

	for (size_t key = LAYERS; key < WIDTH && config->n_layers == 0; key++)
		config->n_layers = number(&s, key, 1, GM_WEIGHTS_LAYERS);
	if (config->n_layers != 0) {
		config->n_extra = number(&s, EXTRA, 0, GM_WEIGHTS_LAYERS);
		read_attention(&s, config);
	}
	if (part->type != NULL && config->type[0] == '\0')
		snprintf(config->type, sizeof(config->type), "%s", part->type);
	return s.ret;
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
		if (ret == 0 && config->n_layers == 0)
			ret = find_facts(&parts[i], why, config);
	return ret;
}

/* ---- GGUF ---------------------------------------------------------------- */

/* The pairs of a GGUF file whose keys begin with its architecture's name. */
struct facts {
	struct gm_weights_text architecture;
	struct gm_weights_text kind; /* general.type; "" or "model" */
	uint64_t n_layers, n_extra, width, n_heads, n_kv_heads, k_dim, v_dim;
	uint64_t kv_lora_rank, rope_dim;
	bool kv_is_list; /* a number of heads for each layer */
};

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
		f->kv_is_list |=
			pair->is_list && (table[i].to == &f->n_heads ||
					  table[i].to == &f->n_kv_heads);
	}
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int read_pairs(const struct gm_weights_meta *meta, struct gm_reason *why,
		      struct gm_weights_config *config)
{
	struct facts f = { .n_layers = 0 };
	int ret = 0;

	/* Twice: the architecture may come behind the keys that begin with
	 * it. */
	for (int pass = 0; pass < 2 && ret == 0; pass++)
		ret = gm_weights_gguf_pairs(meta, take_pair, &f);
	if (f.k_dim == 0 && f.n_heads > 0)
		f.k_dim = f.width / f.n_heads;
	if (ret != 0 || f.n_layers > GM_WEIGHTS_LAYERS ||
	    larger(larger(larger(f.n_heads, f.n_kv_heads),
			  larger(f.k_dim, f.v_dim)),
		   larger(f.kv_lora_rank, f.rope_dim)) > NUMBER_MAX)
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
	if (f.kv_is_list || larger(f.n_heads, f.n_kv_heads) == 0 ||
	    f.k_dim == 0)
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

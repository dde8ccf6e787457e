/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/model_config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "agent/plan/file.h"
#include "agent/plan/placement.h"

#define MOST_BYTES ((size_t)16 << 20) /* vocabularies of labels are long */

/* The keys in the order of the search. */
static const char *const layer_keys[] = { "num_hidden_layers", "n_layer",
					  "n_layers", "num_layers" };
static const char *const language_keys[] = { "text_config", "llm_config",
					     "language_config" };
static const char *const width_keys[] = { "hidden_size", "n_embd", "d_model" };
static const char *const head_keys[] = { "num_attention_heads", "n_head",
					 "n_heads" };
static const char *const kv_keys[] = { "num_key_value_heads", "num_kv_heads",
				       "n_head_kv", "multi_query_group_num",
				       "kv_n_heads" };
static const char *const dim_keys[] = { "head_dim", "kv_channels" };
static const char extra_key[] = "num_nextn_predict_layers";

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* One part of a configuration, and the first thing wrong with it. */
struct part {
	const char *path;
	const json_t *object;
	struct gm_plan_error *err;
	int r;
	bool is_lenient; /* a value that is no number is unknown, not wrong */
	bool has_unknown;
};

/* 0 if @key is missing or null. */
static uint64_t number(struct part *part, const char *key, json_int_t least,
		       json_int_t most)
{
	const json_t *value = json_object_get(part->object, key);
	json_int_t n;

	if (part->r || !value || json_is_null(value))
		return 0;
	if (part->is_lenient && !json_is_integer(value)) {
		/* perhaps a list, one for each layer */
		part->has_unknown = true;
		return 0;
	}
	n = json_is_integer(value) ? json_integer_value(value) : -1;
	if (n >= least && n <= most)
		return (uint64_t)n;
	part->r = gm_error_set(part->err, -EINVAL, "correct config.json",
			       "%s: %s is not a whole number from %d to %d",
			       part->path, key, (int)least, (int)most);
	return 0;
}

/* The first of @keys that exists, or 0. */
static uint64_t first_number(struct part *part, const char *const *keys,
			     size_t n, json_int_t most)
{
	uint64_t value = 0;

	for (size_t i = 0; i < n && value == 0; i++)
		value = number(part, keys[i], 1, most);
	return value;
}

static bool is_true(const struct part *part, const char *key)
{
	return json_is_true(json_object_get(part->object, key));
}

static uint64_t count_kv_heads(struct part *part, uint64_t n_heads)
{
	/* MPT has them in a part of their own. */
	struct part attention = *part;
	uint64_t n;

	/*
	 * Falcon states as many as it has heads of queries, but shares one,
	 * except in its later design.  GPT BigCode does the same.
	 */
	if (is_true(part, "multi_query") &&
	    !is_true(part, "new_decoder_architecture"))
		return 1;
	attention.object = json_object_get(part->object, "attn_config");
	n = first_number(part, kv_keys, COUNT(kv_keys), GM_MODEL_NUMBER);
	if (n == 0)
		n = first_number(&attention, kv_keys, COUNT(kv_keys),
				 GM_MODEL_NUMBER);
	part->r = attention.r ? attention.r : part->r;
	part->has_unknown |= attention.has_unknown;
	return n ? n : n_heads;
}

/* DeepSeek's attention: keys and values are stored compressed. */
static bool read_mla(struct part *part, struct gm_kv_shape *kv)
{
	kv->kv_lora_rank = number(part, "kv_lora_rank", 1, GM_MODEL_NUMBER);
	kv->kpe_head_dim = number(part, "qk_rope_head_dim", 1, GM_MODEL_NUMBER);
	if (kv->kv_lora_rank == 0 || kv->kpe_head_dim == 0)
		return false;
	kv->is_mla = true;
	kv->k_dim = number(part, "qk_nope_head_dim", 0, GM_MODEL_NUMBER) +
		    kv->kpe_head_dim;
	kv->v_dim = number(part, "v_head_dim", 1, GM_MODEL_NUMBER);
	return kv->v_dim > 0;
}

static void read_attention(struct part *part, struct gm_model_config *config)
{
	struct gm_kv_shape kv = { .n_layers = config->n_layers };
	uint64_t width;

	part->is_lenient = true;
	width = first_number(part, width_keys, COUNT(width_keys),
			     GM_MODEL_NUMBER);
	config->n_heads = first_number(part, head_keys, COUNT(head_keys),
				       GM_MODEL_NUMBER);
	if (config->n_heads == 0)
		return;
	kv.n_heads = count_kv_heads(part, config->n_heads);
	if (!read_mla(part, &kv)) {
		kv.k_dim = first_number(part, dim_keys, COUNT(dim_keys),
					GM_MODEL_NUMBER);
		if (kv.k_dim == 0)
			kv.k_dim = width / config->n_heads;
		kv.v_dim = kv.k_dim;
	}
	config->has_kv = kv.k_dim > 0 && !part->has_unknown;
	if (config->has_kv)
		config->kv = kv;
}

static int read_part(const char *path, const json_t *object,
		     struct gm_model_config *config, struct gm_plan_error *err)
{
	struct part part = { .path = path, .object = object, .err = err };
	const char *type =
		json_string_value(json_object_get(object, "model_type"));

	config->n_layers = (uint32_t)first_number(
		&part, layer_keys, COUNT(layer_keys), GM_PLACEMENT_LAYERS);
	if (config->n_layers) {
		config->n_extra = (uint32_t)number(&part, extra_key, 0,
						   GM_PLACEMENT_LAYERS);
		read_attention(&part, config);
	}
	if (type && !config->type[0])
		snprintf(config->type, sizeof(config->type), "%s", type);
	return part.r;
}

int gm_model_config_check(const char *path, const json_t *json,
			  struct gm_model_config *ret_config,
			  struct gm_plan_error *ret_err)
{
	struct gm_model_config config = { 0 };
	int r = read_part(path, json, &config, ret_err);

	for (size_t i = 0; i < COUNT(language_keys); i++)
		if (r == 0 && !config.n_layers)
			r = read_part(path,
				      json_object_get(json, language_keys[i]),
				      &config, ret_err);
	if (r == 0)
		*ret_config = config;
	return r;
}

int gm_model_config_read(const char *path, struct gm_model_config *ret_config,
			 struct gm_plan_error *ret_err)
{
	json_t *json;
	int r;

	r = gm_file_json(path,
			 "give the model's directory, with its "
			 "config.json",
			 MOST_BYTES, &json, ret_err);
	if (r)
		return r;
	r = gm_model_config_check(path, json, ret_config, ret_err);
	json_decref(json);
	return r;
}

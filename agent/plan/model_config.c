/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/model_config.h"

#include <errno.h>
#include <stddef.h>

#include "agent/plan/file.h"
#include "agent/plan/placement.h"

#define MOST_BYTES ((size_t)16 << 20) /* vocabularies of labels are long */

/* In the order they are looked for. */
static const char *const layer_keys[] = { "num_hidden_layers", "n_layer",
					  "n_layers", "num_layers" };
static const char *const language_keys[] = { "text_config", "llm_config",
					     "language_config" };
static const char extra_key[] = "num_nextn_predict_layers";

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* 0 where @key is not there or null. */
static int read_count(const char *path, const json_t *object, const char *key,
		      json_int_t least, uint32_t *ret,
		      struct gm_plan_error *err)
{
	const json_t *value = json_object_get(object, key);
	json_int_t n;

	if (!value || json_is_null(value)) {
		*ret = 0;
		return 0;
	}
	n = json_is_integer(value) ? json_integer_value(value) : -1;
	if (n < least || n > GM_PLACEMENT_LAYERS)
		return gm_error_set(err, -EINVAL, "correct config.json",
				    "%s: %s is not a whole number from %d to "
				    "%u",
				    path, key, (int)least, GM_PLACEMENT_LAYERS);
	*ret = (uint32_t)n;
	return 0;
}

static int read_part(const char *path, const json_t *object,
		     struct gm_model_config *config, struct gm_plan_error *err)
{
	int r = 0;

	for (size_t i = 0; i < COUNT(layer_keys) && !config->n_layers; i++) {
		r = read_count(path, object, layer_keys[i], 1,
			       &config->n_layers, err);
		if (r)
			return r;
	}
	if (config->n_layers)
		r = read_count(path, object, extra_key, 0, &config->n_extra,
			       err);
	return r;
}

int gm_model_config_read(const char *path, struct gm_model_config *ret_config,
			 struct gm_plan_error *ret_err)
{
	struct gm_model_config config = { 0 };
	json_t *json;
	int r;

	r = gm_file_json(path,
			 "give the model's directory, with its "
			 "config.json",
			 MOST_BYTES, &json, ret_err);
	if (r)
		return r;
	r = read_part(path, json, &config, ret_err);
	for (size_t i = 0; i < COUNT(language_keys); i++)
		if (r == 0 && !config.n_layers)
			r = read_part(path,
				      json_object_get(json, language_keys[i]),
				      &config, ret_err);
	json_decref(json);
	if (r == 0)
		*ret_config = config;
	return r;
}

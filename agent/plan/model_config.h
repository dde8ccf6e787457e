/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model_config - read the facts that planning needs from a model's config.json.
 *
 * Architectures use different keys, and models with vision or audio have them
 * in the part about their language model.  A file without the number of layers
 * is no error, because the tensors' names show it as well.  If the shape of the
 * attention is missing it is marked as unknown.
 */
#ifndef GM_MODEL_CONFIG_H
#define GM_MODEL_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/kv.h"

#define GM_MODEL_NUMBER (UINT32_C(1) << 24) /* most of any one number */

struct gm_model_config {
	uint32_t n_layers; /* 0: does not say */
	uint32_t n_extra;  /* layers stored after them to predict more tokens */
	uint64_t n_heads;  /* of attention, 0: does not say */
	bool has_kv;       /* @kv is known */
	struct gm_kv_shape kv;
	char type[64]; /* "llama", or empty */
};

/*
 * gm_model_config_read - read @path, a config.json
 *
 * Returns	0
 *		-EINVAL	not a JSON object, or a number that cannot be
 *		-EFBIG	longer than a configuration can be
 *		-ENOENT and what else opening and reading answer
 * Threads	any
 */
int gm_model_config_read(const char *path, struct gm_model_config *ret_config,
			 struct gm_plan_error *ret_err);

/* The same for JSON that has been read from @path.  Returns 0, -EINVAL. */
int gm_model_config_check(const char *path, const json_t *json,
			  struct gm_model_config *ret_config,
			  struct gm_plan_error *ret_err);

#endif

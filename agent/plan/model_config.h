/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model_config - what a model's config.json says that planning needs.
 *
 * Architectures spell the number of layers differently, and models that see
 * or hear keep it in the part about their language model.  A file that does
 * not say it is no error: the tensors' names know as well.
 */
#ifndef GM_MODEL_CONFIG_H
#define GM_MODEL_CONFIG_H

#include <stdint.h>

#include "agent/plan/error.h"

struct gm_model_config {
	uint32_t n_layers; /* 0: does not say */
	uint32_t n_extra;  /* layers stored after them to predict more tokens */
};

/*
 * gm_model_config_read - read @path, a config.json
 *
 * Returns	0
 *		-EINVAL	not a JSON object, or a number of layers that is none
 *		-EFBIG	longer than a configuration can be
 *		-ENOENT and what else opening and reading answer
 * Threads	any
 */
int gm_model_config_read(const char *path, struct gm_model_config *ret_config,
			 struct gm_plan_error *ret_err);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "lib/model/plan/plan.h"

/* Bytes of one weight before packing. */
static uint32_t weight_bytes(const char *type)
{
	if (strcmp(type, "F32") == 0)
		return 4;
	return strcmp(type, "F16") == 0 || strcmp(type, "BF16") == 0 ? 2 : 0;
}

uint32_t gm_plan_of_sizes(const struct gm_weights_sizes *sizes,
			  struct gpumap_plan_request *ret_ask)
{
	const struct gm_weights_config *config = &sizes->config;

	ret_ask->n_layers = sizes->n_layers;
	ret_ask->layer_bytes = sizes->layer_bytes;
	ret_ask->other_bytes = sizes->other_bytes;
	ret_ask->tied_bytes = sizes->tied_bytes;
	ret_ask->n_heads = config->n_heads;
	ret_ask->caches = sizes->caches;
	ret_ask->n_caches = sizes->n_caches;
	ret_ask->conv_taps = config->conv_taps;
	ret_ask->state_bytes = config->state_bytes;
	return weight_bytes(gm_weights_type(sizes->type));
}

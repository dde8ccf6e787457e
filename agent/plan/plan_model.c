/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "agent/plan/plan.h"
#include "lib/checkpoint/checkpoint.h"

/* Bytes of one weight before packing. */
static uint32_t weight_bytes(const char *type)
{
	if (strcmp(type, "F32") == 0)
		return 4;
	return strcmp(type, "F16") == 0 || strcmp(type, "BF16") == 0 ? 2 : 0;
}

struct gm_plan_model gm_plan_of_sizes(const struct gm_weights_sizes *sizes)
{
	const struct gm_weights_config *config = &sizes->config;

	return (struct gm_plan_model){
		.n_layers = sizes->n_layers,
		.layer_bytes = sizes->layer_bytes,
		.other_bytes = sizes->other_bytes,
		.weight_bytes = weight_bytes(gm_weights_type(sizes->type)),
		.n_heads = config->n_heads,
		.has_kv = config->k_dim > 0,
		.kv = { .n_layers = config->k_dim > 0 ? sizes->n_layers : 0,
			.n_heads = config->n_kv_heads,
			.k_dim = config->k_dim,
			.v_dim = config->v_dim,
			.is_mla = config->kv_lora_rank > 0,
			.kv_lora_rank = config->kv_lora_rank,
			.kpe_head_dim = config->kpe_head_dim },
	};
}

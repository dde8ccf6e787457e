/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* layer_caches - what the layers of a model keep, where all keep the same. */
#ifndef GM_TESTS_LAYER_CACHES_H
#define GM_TESTS_LAYER_CACHES_H

#include "gpumap/layers.h"

/* Keys and values of @n_heads heads, @dim elements of each. */
static inline const struct gpumap_layer_cache *
fill_caches(struct gpumap_layer_cache *caches, uint32_t n_layers,
	    uint32_t n_heads, uint32_t dim)
{
	for (uint32_t i = 0; i < n_layers; i++)
		caches[i] = (struct gpumap_layer_cache){
			.n_layers = 1,
			.n_heads = n_heads,
			.token_elements = (uint64_t)n_heads * 2 * dim,
		};
	return caches;
}

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/checkpoint/checkpoint.h"

/* The type with most bytes; the order of types breaks ties. */
static uint32_t main_type(const struct gm_weights *weights)
{
	uint64_t bytes[GM_WEIGHTS_TYPES] = { 0 };
	uint32_t best = 0;

	for (size_t i = 0; i < weights->n; i++)
		bytes[weights->v[i].type] += weights->v[i].bytes;
	for (uint32_t i = 1; i < GM_WEIGHTS_TYPES; i++)
		if (bytes[i] > bytes[best])
			best = i;
	return best;
}

/* Sum up the tensors of each layer. */
static void add_up(const struct gm_weights *weights, const int32_t *layers,
		   struct gm_weights_sizes *sizes)
{
	bool has_head = false;

	for (size_t i = 0; i < weights->n; i++) {
		int32_t with = gm_layer_with(layers[i], sizes->n_layers);
		uint64_t bytes = weights->v[i].bytes;

		has_head |= layers[i] == GM_OF_HEAD;
		if (with >= 0)
			sizes->layer_bytes[with] += bytes;
		if (layers[i] <= GM_OF_LAST_NORM)
			sizes->head_bytes += bytes;
		if (layers[i] == GM_OF_EMBEDDING)
			sizes->tied_bytes += bytes;
	}
	if (has_head)
		sizes->tied_bytes = 0;
}

/* Make one of neighbours that keep the same. */
static void join(struct gm_weights_sizes *sizes)
{
	struct gpumap_layer_cache *last = sizes->caches;

	last->n_layers = 0;
	for (uint32_t i = 0; i < sizes->n_layers; i++) {
		struct gpumap_layer_cache next = sizes->caches[i];

		next.n_layers = last->n_layers;
		if (memcmp(&next, last, sizeof(next)) != 0) {
			next.n_layers = 0;
			*++last = next;
		}
		last->n_layers++;
	}
	sizes->n_caches = (uint32_t)(last - sizes->caches) + 1;
}

int gm_weights_measure_layers(const struct gm_weights *weights,
			      struct gm_weights_sizes *sizes)
{
	int32_t *layers = calloc(weights->n + 1, sizeof(*layers));
	int ret = layers == NULL ? -ENOMEM : 0;

	if (ret == 0)
		ret = gm_weights_own_layers(weights, &sizes->config, layers,
					    &sizes->n_layers);
	if (ret == 0) {
		sizes->layer_bytes =
			calloc(sizes->n_layers, sizeof(*sizes->layer_bytes));
		sizes->caches = calloc(sizes->n_layers, sizeof(*sizes->caches));
		if (sizes->layer_bytes == NULL || sizes->caches == NULL)
			ret = -ENOMEM;
	}
	if (ret == 0)
		add_up(weights, layers, sizes);
	if (ret == 0)
		ret = gm_weights_cache_find(weights, &sizes->config, layers,
					    sizes->n_layers, sizes->caches);
	if (ret == 0)
		join(sizes);
	free(layers);
	return ret;
}

int gm_weights_measure(const char *path, const struct gm_weights_watch *watch,
		       struct gm_reason *why,
		       struct gm_weights_sizes *ret_sizes)
{
	struct gm_weights_sizes sizes = { .n_layers = 0 };
	struct gm_weights weights;
	int ret = gm_weights_read(path, watch, why, &weights);

	if (ret != 0)
		return ret;
	ret = gm_weights_config_of(&weights, &sizes.config);
	if (ret == 0)
		ret = gm_weights_measure_layers(&weights, &sizes);
	if (ret == 0) {
		sizes.n_files = weights.n_files;
		sizes.n_tensors = weights.n;
		sizes.type = main_type(&weights);
		/* No sum overflows: the files have less than 2^63 bytes. */
		for (size_t i = 0; i < weights.n; i++)
			sizes.total_bytes += weights.v[i].bytes;
		sizes.other_bytes = sizes.total_bytes;
		for (uint32_t i = 0; i < sizes.n_layers; i++)
			sizes.other_bytes -= sizes.layer_bytes[i];
		*ret_sizes = sizes;
	} else {
		gm_weights_sizes_free(&sizes);
	}
	gm_weights_free(&weights);
	return ret;
}

void gm_weights_sizes_free(struct gm_weights_sizes *sizes)
{
	if (sizes == NULL)
		return;
	free(sizes->layer_bytes);
	free(sizes->caches);
	*sizes = (struct gm_weights_sizes){ .n_layers = 0 };
}

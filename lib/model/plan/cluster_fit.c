/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/cluster_fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/cache.h"
#include "lib/model/plan/checked.h"
#include "shm/ops.h"
#include "shm/split.h"

#define STAGES GM_CLUSTER_PLAN_STAGES
#define STEPS  1024u /* of a room */

_Static_assert(STAGES <= GM_SPLIT_ROWS, "layers are split over all stages");

/* Equal layers need no more than fill_up(). */
static int make_room(struct gm_cluster_fit *fit, struct gm_plan_error *err)
{
	size_t n = fit->n_layers;
	bool is_equal = true;

	for (uint32_t i = 1; i < n; i++)
		is_equal = is_equal && gm_cluster_fit_bytes(fit, i, i + 1) ==
					       gm_cluster_fit_bytes(fit, 0, 1);
	if (is_equal)
		return 0;
	fit->can_begin = malloc((gm_min(n, STAGES) + 1) * (n + 1));
	return fit->can_begin != NULL ? 0 : gm_error_no_memory(err);
}

int gm_cluster_fit_measure(const struct gm_cluster_plan_request *q, uint32_t tp,
			   struct gm_cluster_fit *ret_fit,
			   struct gm_plan_error *err)
{
	const struct gpumap_plan_request *ask = &q->ask;
	struct gm_cluster_fit fit = { .n_layers = ask->n_layers,
				      .other_bytes = ask->other_bytes,
				      .tied_bytes = ask->tied_bytes };
	struct gm_cache_request cache = gm_cache_of(ask);
	uint64_t chunk = gm_min(cache.max_seq_len, GM_KV_CHUNK), sum;
	bool over = false;
	int ret;

	cache.n_layers = fit.n_layers;
	cache.n_ranks = tp;
	cache.dtype_bytes = gm_ops_dtype_bytes(ask->compute_dtype);
	fit.sums = calloc((size_t)ask->n_layers + 1, sizeof(*fit.sums));
	fit.kv_sums = calloc((size_t)ask->n_layers + 1, sizeof(*fit.kv_sums));
	if (fit.sums == NULL || fit.kv_sums == NULL)
		ret = gm_error_no_memory(err);
	else
		ret = gm_cache_sums(&cache, NULL, fit.kv_sums, err);
	if (ret != 0) {
		gm_cluster_fit_free(&fit);
		return ret;
	}
	for (uint32_t i = 0; i < ask->n_layers; i++)
		fit.sums[i + 1] = gm_checked_add(
			&over, fit.sums[i], gm_part(ask->layer_bytes[i], tp));
	fit.act_bytes = GM_CHECKED_PRODUCT(&over, cache.max_batch_size,
					   gm_part(ask->n_heads, tp),
					   chunk * chunk, cache.dtype_bytes);
	sum = gm_checked_add(&over, fit.kv_sums[ask->n_layers],
			     fit.sums[ask->n_layers]);
	sum = gm_checked_add(&over, sum, fit.act_bytes);
	sum = gm_checked_add(&over, sum, fit.other_bytes);
	gm_checked_add(&over, sum, fit.tied_bytes);
	ret = over ? gm_error_large_plan(err) : make_room(&fit, err);
	if (ret == 0)
		*ret_fit = fit;
	else
		gm_cluster_fit_free(&fit);
	return ret;
}

void gm_cluster_fit_free(struct gm_cluster_fit *fit)
{
	free(fit->sums);
	free(fit->kv_sums);
	free(fit->can_begin);
	fit->sums = fit->kv_sums = NULL;
	fit->can_begin = NULL;
}

uint64_t gm_cluster_fit_weights(const struct gm_cluster_fit *fit,
				uint32_t first, uint32_t n)
{
	return fit->sums[first + n] - fit->sums[first];
}

uint64_t gm_cluster_fit_kv(const struct gm_cluster_fit *fit, uint32_t first,
			   uint32_t end)
{
	return fit->kv_sums[end] - fit->kv_sums[first];
}

uint64_t gm_cluster_fit_bytes(const struct gm_cluster_fit *fit, uint32_t first,
			      uint32_t end)
{
	return gm_cluster_fit_weights(fit, first, end - first) +
	       gm_cluster_fit_kv(fit, first, end);
}

uint64_t gm_cluster_fit_beside(const struct gm_cluster_fit *fit, uint32_t stage,
			       uint32_t n)
{
	if (stage == 0)
		return fit->other_bytes;
	return stage + 1 == n ? fit->tied_bytes : 0;
}

/* The room of each stage for layers. */
static void clear_rooms(const struct gm_cluster_fit *fit, const uint64_t *rooms,
			uint32_t n, uint64_t ret_rooms[STAGES])
{
	for (uint32_t i = 0; i < n; i++)
		ret_rooms[i] = gm_minus(
			rooms[i],
			fit->act_bytes + gm_cluster_fit_beside(fit, i, n));
}

/* Where the last layer may be that fits into a room from @at on. */
static uint32_t end_of(const struct gm_cluster_fit *fit, uint64_t room,
		       uint32_t at, uint32_t from, uint32_t most)
{
	while (from < most && gm_cluster_fit_bytes(fit, at, from + 1) <= room)
		from++;
	return from;
}

/* Fill one stage after the other with as many layers as fit.  Each later stage
 * is left one.  Returns how many layers fit. */
static uint32_t fill_up(const struct gm_cluster_fit *fit, const uint64_t *rooms,
			uint32_t n, uint32_t *ret_lengths)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t end = end_of(fit, rooms[i], at, at,
				      fit->n_layers - (n - 1 - i));

		if (end == at)
			break;
		ret_lengths[i] = end - at;
		at = end;
	}
	return at;
}

/* Find for each stage, from the last on, with which layers it and those behind
 * it can begin: a stage may have to leave small layers to the next one, which
 * has no room for the large one behind them. */
static bool try_all(const struct gm_cluster_fit *fit, const uint64_t *rooms,
		    uint32_t n, uint32_t *ret_lengths)
{
	uint32_t width = fit->n_layers + 1;

	memset(fit->can_begin, 0, (size_t)(n + 1) * width);
	fit->can_begin[n * width + fit->n_layers] = true;
	for (uint32_t i = n; i-- > 0;) {
		const bool *next = &fit->can_begin[(i + 1) * width];
		uint32_t end = 0, n_next = 0;

		/* n_next: of the layers behind @at, up to @end */
		for (uint32_t at = 0; at < fit->n_layers; at++) {
			uint32_t from = end > at ? end : at;

			n_next = end > at ? n_next - next[at] : 0;
			end = end_of(fit, rooms[i], at, from, fit->n_layers);
			for (uint32_t k = from + 1; k <= end; k++)
				n_next += next[k];
			fit->can_begin[i * width + at] = n_next > 0;
		}
	}
	if (!fit->can_begin[0])
		return false;
	for (uint32_t i = 0, at = 0; i < n; at += ret_lengths[i++]) {
		uint32_t end = end_of(fit, rooms[i], at, at, fit->n_layers);

		while (!fit->can_begin[(i + 1) * width + end])
			end--;
		ret_lengths[i] = end - at;
	}
	return true;
}

static uint32_t fill(const struct gm_cluster_fit *fit, const uint64_t *rooms,
		     uint32_t n, uint32_t *ret_lengths)
{
	uint32_t n_layers = fill_up(fit, rooms, n, ret_lengths);

	if (n_layers < fit->n_layers && fit->can_begin != NULL &&
	    try_all(fit, rooms, n, ret_lengths))
		n_layers = fit->n_layers;
	return n_layers;
}

uint32_t gm_cluster_fit_layers(const struct gm_cluster_fit *fit,
			       const uint64_t *rooms, uint32_t n)
{
	uint64_t clear[STAGES];
	uint32_t lengths[STAGES];

	if (n > fit->n_layers)
		return 0;
	clear_rooms(fit, rooms, n, clear);
	return fill(fit, clear, n, lengths);
}

uint64_t gm_cluster_fit_lacks(const struct gm_cluster_fit *fit,
			      const uint64_t *rooms, uint32_t n)
{
	uint32_t lengths[STAGES], at = 0;
	uint64_t clear[STAGES];

	clear_rooms(fit, rooms, n, clear);
	if (n > 1)
		at = fill_up(fit, clear, n - 1, lengths);
	return gm_minus(gm_cluster_fit_bytes(fit, at, fit->n_layers) +
				fit->act_bytes +
				gm_cluster_fit_beside(fit, n - 1, n),
			rooms[n - 1]);
}

/* Do these ranges fit? */
static bool fits(const struct gm_cluster_fit *fit, const uint64_t *rooms,
		 uint32_t n, const uint32_t *lengths)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < n; at += lengths[i++])
		if (lengths[i] == 0 ||
		    gm_cluster_fit_bytes(fit, at, at + lengths[i]) > rooms[i])
			return false;
	return true;
}

/* Fill each stage to the same part of its room, the least that will do. */
static void fill_evenly(const struct gm_cluster_fit *fit, const uint64_t *rooms,
			uint32_t n, uint32_t *ret_lengths)
{
	uint32_t low = 1, high = STEPS;
	uint64_t less[STAGES];

	while (low <= high) {
		uint32_t step = low < high ? low + (high - low) / 2 : high;

		for (uint32_t i = 0; i < n; i++)
			less[i] = rooms[i] / STEPS * step +
				  rooms[i] % STEPS * step / STEPS;
		if (fill(fit, less, n, ret_lengths) < fit->n_layers)
			low = step + 1;
		else if (low == high)
			return;
		else
			high = step;
	}
}

void gm_cluster_fit_divide(const struct gm_cluster_fit *fit,
			   const uint64_t *rooms, uint32_t n,
			   uint32_t *ret_lengths)
{
	uint64_t clear[STAGES], counts[STAGES];
	double weights[STAGES] = { 0 };

	clear_rooms(fit, rooms, n, clear);
	for (uint32_t i = 0; i < n; i++)
		weights[i] = (double)clear[i];
	gm_split(fit->n_layers, weights, n, counts);
	for (uint32_t i = 0; i < n; i++)
		ret_lengths[i] = (uint32_t)counts[i];
	if (!fits(fit, clear, n, ret_lengths))
		fill_evenly(fit, clear, n, ret_lengths);
}

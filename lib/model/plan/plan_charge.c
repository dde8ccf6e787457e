/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Charge the layers to their rows, and compute what is left of each row. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "lib/model/plan/checked.h"
#include "lib/model/plan/plan_draft.h"
#include "lib/model/plan/size_text.h"
#include "shm/ops.h"

int gm_plan_measure(struct gm_plan_draft *d)
{
	const struct gpumap_plan_request *ask = d->ask;
	uint64_t chunk = gm_min(d->cache.max_seq_len, GM_KV_CHUNK);
	bool over = false;

	d->act_elems = GM_CHECKED_PRODUCT(&over, d->cache.max_batch_size,
					  gm_part(ask->n_heads, d->n_ranks),
					  chunk * chunk);
	gm_checked_mul(&over, d->act_elems, 8); /* bytes of the widest type */
	d->layer_bytes = 0;
	for (uint32_t i = 0; i < ask->n_layers && ask->layer_bytes; i++)
		d->layer_bytes = gm_checked_add(&over, d->layer_bytes,
						ask->layer_bytes[i]);
	gm_checked_add(&over, d->layer_bytes, ask->other_bytes);
	return over ? gm_error_large_plan(d->err) : 0;
}

const struct gm_plan_device *gm_plan_first_device(const struct gm_plan_draft *d)
{
	const struct gm_plan_device *device;
	uint32_t last = GM_ROW_FIRST;

	for (uint32_t i = 0; i < d->n_ranks; i++)
		if (d->q->devices[d->ranks[i]].is_host)
			return NULL;
	for (uint32_t i = 0; i < d->plan.n_layers; i++) {
		if (d->plan.rows[i] == last)
			continue;
		last = d->plan.rows[i];
		device = gm_plan_find(d->q, last);
		if (device->is_host)
			return NULL;
	}
	return gm_plan_find(d->q, d->plan.rows[0]);
}

int gm_plan_measure_kv(struct gm_plan_draft *d,
		       const struct gm_plan_device *first)
{
	const struct gpumap_plan_request *ask = d->ask;
	struct gm_kv_room room;

	d->cache.n_layers = d->plan.n_layers;
	d->cache.n_ranks = d->n_ranks;
	d->cache.dtype_bytes = gm_ops_dtype_bytes(d->plan.compute_dtype);
	d->plan.is_paged = gm_plan_has_cache(d) && first &&
			   d->cache.paged.budget != GPUMAP_PAGED_NONE;
	if (!d->kv_sums)
		d->kv_sums = calloc((size_t)d->plan.n_layers + 1,
				    sizeof(*d->kv_sums));
	if (!d->kv_sums)
		return gm_error_no_memory(d->err);
	if (!d->plan.is_paged)
		return gm_cache_sums(&d->cache, NULL, d->kv_sums, d->err);
	room = (struct gm_kv_room){
		.capacity = gm_place_capacity(first),
		.model_bytes =
			gm_part(d->layer_bytes, d->n_ranks) + ask->other_bytes,
		.act_bytes = d->act_elems * d->cache.dtype_bytes,
	};
	return gm_cache_sums(&d->cache, &room, d->kv_sums, d->err);
}

/* The charge to @row, a new one if there is none yet; the array has room. */
static struct gpumap_charge *charge_to(struct gm_plan *plan, uint32_t row)
{
	struct gpumap_charge *c = plan->charges;

	while (c < plan->charges + plan->n_charges && c->row != row)
		c++;
	if (c == plan->charges + plan->n_charges) {
		*c = (struct gpumap_charge){ .row = row };
		plan->n_charges++;
	}
	return c;
}

static void charge_layers(struct gm_plan_draft *d, struct gpumap_charge *c,
			  uint32_t first, uint32_t n)
{
	const uint64_t *bytes = d->ask->layer_bytes;

	c->n_layers += n;
	c->kv_bytes += d->kv_sums[first + n] - d->kv_sums[first];
	/* If only the spec gives the number of layers, no layer has bytes. */
	if (bytes && d->ask->n_layers > 0)
		for (uint32_t i = first; i < first + n; i++)
			c->weight_bytes += gm_part(bytes[i], d->n_ranks);
}

static int finish(struct gm_plan_draft *d, struct gpumap_charge *c)
{
	const struct gm_plan_device *device = gm_plan_find(d->q, c->row);
	uint64_t capacity = gm_place_capacity(device);
	bool over = false;
	uint64_t need, missing;

	if (c->n_layers > 0)
		c->activation_bytes = d->act_elems *
				      gm_ops_dtype_bytes(d->plan.compute_dtype);
	need = c->weight_bytes + c->kv_bytes + c->activation_bytes;
	c->reserve_bytes = device->avail - capacity;
	c->left_bytes = gm_minus(capacity, need);
	missing = gm_minus(need, capacity);
	if (missing > d->plan.missing_bytes) {
		d->plan.missing_bytes = missing;
		d->plan.missing_row = c->row;
	}
	gm_checked_add(&over, need, c->reserve_bytes);
	return over ? gm_error_large_plan(d->err) : 0;
}

/* Check that the sum over the model does not overflow; rows need parts of
 * it. */
static int check_sum(const struct gm_plan_draft *d)
{
	uint64_t sum = d->layer_bytes + d->ask->other_bytes;
	bool over = false;

	sum = gm_checked_add(&over, sum, d->ask->tied_bytes);
	/* Rounding up adds less than a byte for each layer. */
	if (d->n_ranks > 1)
		sum = gm_checked_add(&over, sum, d->plan.n_layers);
	sum = gm_checked_add(&over, sum, d->kv_sums[d->plan.n_layers]);
	gm_checked_add(&over, sum,
		       d->act_elems *
			       gm_ops_dtype_bytes(d->plan.compute_dtype));
	return over ? gm_error_large_plan(d->err) : 0;
}

int gm_plan_charge_rows(struct gm_plan_draft *d)
{
	struct gm_plan *plan = &d->plan;
	uint32_t n, first = 0, last = plan->rows[plan->n_layers - 1];
	int r = check_sum(d);

	if (r)
		return r;
	plan->kv_bytes = d->kv_sums[plan->n_layers] / plan->n_layers +
			 (d->kv_sums[plan->n_layers] % plan->n_layers != 0);
	free(plan->charges);
	plan->n_charges = 0;
	plan->missing_bytes = 0;
	plan->charges = malloc(d->q->n_devices * sizeof(*plan->charges));
	if (!plan->charges)
		return gm_error_no_memory(d->err);
	for (uint32_t i = 0; i < d->n_ranks; i++) {
		struct gpumap_charge *c =
			charge_to(plan, d->q->devices[d->ranks[i]].row);

		charge_layers(d, c, 0, plan->n_layers);
		c->weight_bytes += d->ask->other_bytes;
	}
	for (; first < plan->n_layers && d->n_ranks == 0; first += n) {
		for (n = 1; first + n < plan->n_layers; n++)
			if (plan->rows[first + n] != plan->rows[first])
				break;
		charge_layers(d, charge_to(plan, plan->rows[first]), first, n);
	}
	if (d->n_ranks == 0) {
		charge_to(plan, plan->base_row)->weight_bytes +=
			d->ask->other_bytes;
		if (last != plan->base_row)
			charge_to(plan, last)->weight_bytes +=
				d->ask->tied_bytes;
	}
	for (uint32_t i = 0; i < plan->n_charges && r == 0; i++)
		r = finish(d, &plan->charges[i]);
	return r;
}

int gm_plan_check_rows(const struct gm_plan_draft *d)
{
	const struct gpumap_charge *most = d->plan.charges;
	char size[5][GM_SIZE_TEXT];

	if (d->plan.missing_bytes == 0)
		return 0;
	while (most->row != d->plan.missing_row)
		most++;
	return gm_error_set(
		d->err, -ENOSPC,
		"move layers to other rows, or lower max_seq_len or the batch",
		"Row %" PRIu32 " lacks %s: %s for weights, %s for the KV "
		"cache, %s for activations, %s kept back",
		most->row, gm_size_text(d->plan.missing_bytes, size[0]),
		gm_size_text(most->weight_bytes, size[1]),
		gm_size_text(most->kv_bytes, size[2]),
		gm_size_text(most->activation_bytes, size[3]),
		gm_size_text(most->reserve_bytes, size[4]));
}

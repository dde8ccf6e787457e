/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/auto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/balance.h"
#include "agent/plan/checked.h"
#include "agent/plan/fill.h"
#include "agent/plan/sizes.h"

/* In the order of enum gm_strategy. */
static const char *const names[] = { "fill", "balance", "fewest" };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

int gm_strategy_parse(const char *name, enum gm_strategy *ret_strategy,
		      struct gm_plan_error *ret_err)
{
	for (size_t i = 0; i < COUNT(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_strategy = (enum gm_strategy)i;
			return 0;
		}
	}
	return gm_error_set(ret_err, -EINVAL, "use fill, balance or fewest",
			    "%.64s is no strategy", name);
}

/* A request with its rows in order and its sizes worked out. */
struct task {
	const struct gm_auto_request *q;
	struct gm_auto_row rows[GM_AUTO_ROWS];
	uint32_t n_rows;
	uint64_t kv_bytes;
	uint64_t act_elems;
	uint64_t total_bytes;
	struct gm_plan_error *err;
};

static void order_rows(struct task *t)
{
	bool integrated = false;

	for (uint32_t i = 0; i < t->q->n_rows; i++) {
		integrated |= t->q->rows[i].is_integrated;
		if (!t->q->rows[i].is_host)
			t->rows[t->n_rows++] = t->q->rows[i];
	}
	for (uint32_t i = 0; i < t->q->n_rows && !integrated; i++)
		if (t->q->rows[i].is_host)
			t->rows[t->n_rows++] = t->q->rows[i];
}

static int measure(struct task *t)
{
	const struct gm_auto_request *q = t->q;
	uint64_t chunk = gm_min(q->max_seq_len, GM_SIZES_CHUNK);
	bool over = false;

	t->act_elems = GM_CHECKED_PRODUCT(&over, q->max_batch_size, q->n_heads,
					  chunk * chunk);
	gm_checked_mul(&over, t->act_elems, q->dtype_bytes);
	t->total_bytes = q->non_mapped_bytes;
	for (uint32_t i = 0; i < q->n_layers; i++)
		t->total_bytes = gm_checked_add(&over, t->total_bytes,
						q->layer_bytes[i]);
	if (over)
		return gm_error_set(t->err, -EOVERFLOW, "correct the request",
				    "The plan's sizes come to 2^64 bytes or "
				    "more");
	return gm_kv_unpaged(&q->kv, q->max_seq_len, q->max_batch_size,
			     q->dtype_bytes, &t->kv_bytes, t->err);
}

/* One more range; the strategy has made sure that it fits. */
static void charge(const struct task *t, struct gm_auto *plan, uint32_t i,
		   uint32_t n)
{
	const struct gm_auto_row *row = &t->rows[i];
	struct gm_auto_charge *c = &plan->charges[plan->n_charges];
	uint64_t capacity = gm_sizes_capacity(row->avail, row->is_host);

	*c = (struct gm_auto_charge){
		.row = row->row,
		.n_layers = n,
		.has_non_mapped = plan->n_charges == 0,
		.kv_bytes = t->kv_bytes * n,
		.act_bytes = t->act_elems * t->q->dtype_bytes,
		.reserve_bytes = row->avail - capacity,
	};
	if (plan->n_charges > 0)
		c->first = c[-1].first + c[-1].n_layers;
	else
		c->weight_bytes = t->q->non_mapped_bytes;
	for (uint32_t j = 0; j < n; j++)
		c->weight_bytes += t->q->layer_bytes[c->first + j];
	c->left_bytes = capacity - c->weight_bytes - c->kv_bytes - c->act_bytes;
	plan->n_charges++;
}

static int fill(struct task *t, struct gm_auto *plan)
{
	const struct gm_auto_request *q = t->q;
	struct gm_fill_device devices[GM_AUTO_ROWS];
	struct gm_fill_request f = {
		.devices = devices,
		.n_devices = t->n_rows,
		.layer_bytes = q->layer_bytes,
		.n_layers = q->n_layers,
		.non_mapped_bytes = q->non_mapped_bytes,
		.total_bytes = t->total_bytes,
		.mapped_act_elems = t->act_elems,
		.dtype_bytes = q->dtype_bytes,
		.max_seq_len = q->max_seq_len,
		.max_batch_size = q->max_batch_size,
		.kv = q->kv,
	};
	struct gm_fill filled;
	int r;

	for (uint32_t i = 0; i < t->n_rows; i++)
		devices[i] =
			(struct gm_fill_device){ t->rows[i].avail,
						 t->rows[i].is_host,
						 t->rows[i].is_integrated };
	r = gm_fill_make(&f, &filled, t->err);
	if (r)
		return r;
	for (size_t i = 0; i < filled.n_charges; i++)
		charge(t, plan, filled.charges[i].device,
		       filled.charges[i].n_layers);
	gm_fill_free(&filled);
	return 0;
}

static int balance(struct task *t, struct gm_auto *plan)
{
	const struct gm_auto_request *q = t->q;
	struct gm_balance_row rows[GM_AUTO_ROWS];
	struct gm_balance_request b = {
		.goal = q->strategy == GM_STRATEGY_FEWEST ? GM_FEWEST
							  : GM_BALANCE,
		.rows = rows,
		.n_rows = t->n_rows,
		.layer_bytes = q->layer_bytes,
		.n_layers = q->n_layers,
		.kv_bytes = t->kv_bytes,
		.mapped_act_bytes = t->act_elems * q->dtype_bytes,
		.non_mapped_bytes = q->non_mapped_bytes,
	};
	struct gm_balance balanced;
	int r;

	for (uint32_t i = 0; i < t->n_rows; i++)
		rows[i] = (struct gm_balance_row){
			gm_sizes_capacity(t->rows[i].avail, t->rows[i].is_host),
			t->rows[i].speed
		};
	r = gm_balance_make(&b, &balanced, t->err);
	if (r)
		return r;
	for (uint32_t i = 0; i < balanced.n_ranges; i++)
		charge(t, plan, balanced.ranges[i].row, balanced.ranges[i].n);
	gm_balance_free(&balanced);
	return 0;
}

static int make(const struct gm_auto_request *q, struct gm_auto *ret_auto,
		struct gm_plan_error *err)
{
	struct task t = { .q = q, .err = err };
	struct gm_auto plan = { 0 };
	int r;

	order_rows(&t);
	r = measure(&t);
	if (r)
		return r;
	plan.charges = calloc((size_t)t.n_rows + 1, sizeof(*plan.charges));
	if (!plan.charges)
		return gm_error_no_memory(err);
	r = q->strategy == GM_STRATEGY_FILL ? fill(&t, &plan)
					    : balance(&t, &plan);
	if (r)
		gm_auto_free(&plan);
	else
		*ret_auto = plan;
	return r;
}

static bool fits(const struct gm_auto_request *q)
{
	struct gm_auto plan;

	if (make(q, &plan, NULL))
		return false;
	gm_auto_free(&plan);
	return true;
}

/* The largest value of *@field below its own with which @q fits, or 0. */
static uint64_t largest(const struct gm_auto_request *q, uint64_t *field)
{
	uint64_t most = *field, low = 0, high = most ? most - 1 : 0;

	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		*field = middle;
		if (fits(q))
			low = middle;
		else
			high = middle - 1;
	}
	*field = most;
	return low;
}

/* The first of these, each packing more, with which @q fits. */
static enum gm_isq least_packing(const struct gm_auto_request *q)
{
	static const uint8_t types[] = { GM_ISQ_Q8_0, GM_ISQ_Q6K, GM_ISQ_Q4K,
					 GM_ISQ_Q3K, GM_ISQ_Q2K };
	struct gm_auto_request packed = *q;
	uint64_t *layers = calloc(q->n_layers, sizeof(*layers));
	enum gm_isq found = GM_ISQ_N;

	packed.layer_bytes = layers;
	for (size_t i = 0; i < COUNT(types) && layers && found == GM_ISQ_N;
	     i++) {
		uint32_t factor = gm_isq_pack_factor((enum gm_isq)types[i],
						     q->dtype_bytes);

		for (uint32_t j = 0; j < q->n_layers; j++)
			layers[j] = q->layer_bytes[j] / factor;
		packed.non_mapped_bytes = q->non_mapped_bytes / factor;
		if (fits(&packed))
			found = (enum gm_isq)types[i];
	}
	free(layers);
	return found;
}

static struct gm_auto_advice advise(const struct gm_auto_request *q)
{
	struct gm_auto_request try = *q;

	return (struct gm_auto_advice){
		.max_seq_len = largest(&try, &try.max_seq_len),
		.max_batch_size = largest(&try, &try.max_batch_size),
		.isq = least_packing(q),
	};
}

int gm_auto_make(const struct gm_auto_request *q, struct gm_auto *ret_auto,
		 struct gm_auto_advice *ret_advice,
		 struct gm_plan_error *ret_err)
{
	int r;

	if (q->n_rows > GM_AUTO_ROWS)
		return gm_error_set(ret_err, -E2BIG, "leave some out",
				    "%" PRIu32 " rows, at most %u are allowed",
				    q->n_rows, GM_AUTO_ROWS);
	r = make(q, ret_auto, ret_err);
	if (r == -ENOSPC && ret_advice)
		*ret_advice = advise(q);
	return r;
}

void gm_auto_free(struct gm_auto *plan)
{
	if (!plan)
		return;
	free(plan->charges);
	*plan = (struct gm_auto){ 0 };
}

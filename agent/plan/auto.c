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

int gm_auto_strategy_parse(const char *name, enum gm_strategy *ret_strategy,
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

/* A request, with its rows in order and its sizes computed. */
struct task {
	const struct gm_auto_request *q;
	struct gm_auto_row rows[GM_AUTO_ROWS]; /* hosts last */
	uint32_t n_rows;
	uint32_t n_devices; /* those that are no hosts */
	uint64_t total_bytes;
	uint64_t mapped; /* largest activation while a layer runs, bytes */
	uint64_t other;  /* and outside of layers */
	bool is_paged;
	uint64_t kv_bytes;
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
	t->n_devices = t->n_rows;
	for (uint32_t i = 0; i < t->q->n_rows && !integrated; i++)
		if (t->q->rows[i].is_host)
			t->rows[t->n_rows++] = t->q->rows[i];
}

static int measure(struct task *t)
{
	const struct gm_auto_request *q = t->q;
	bool over = false;

	t->mapped = gm_checked_mul(&over, q->mapped_act_elems, q->dtype_bytes);
	t->other =
		gm_checked_mul(&over, q->non_mapped_act_elems, q->dtype_bytes);
	t->total_bytes = q->non_mapped_bytes;
	for (uint32_t i = 0; i < q->n_layers; i++)
		t->total_bytes = gm_checked_add(&over, t->total_bytes,
						q->layer_bytes[i]);
	if (over)
		return gm_error_set(t->err, -EOVERFLOW, "correct the request",
				    "The plan's sizes come to 2^64 bytes or "
				    "more");
	return 0;
}

static uint64_t capacity(const struct gm_auto_row *row)
{
	return gm_sizes_capacity(row->avail, row->is_host);
}

static int measure_kv(struct task *t, bool is_paged)
{
	const struct gm_auto_request *q = t->q;
	struct gm_kv_room room = { .model_bytes = t->total_bytes,
				   .act_bytes = gm_max(t->mapped, t->other) };

	t->is_paged = is_paged;
	if (!is_paged)
		return gm_kv_unpaged(&q->kv, q->max_seq_len, q->max_batch_size,
				     q->dtype_bytes, &t->kv_bytes, t->err);
	room.capacity = capacity(&t->rows[0]);
	return gm_kv_paged_bytes(&q->kv, q->paged, &room, q->dtype_bytes,
				 &t->kv_bytes, t->err);
}

/* Add a range to the map; the strategy has ensured that it fits. */
static void charge(const struct task *t, struct gm_auto *plan, uint32_t i,
		   uint32_t n)
{
	const struct gm_auto_row *row = &t->rows[i];
	struct gm_auto_charge *c = &plan->charges[plan->n_charges];

	*c = (struct gm_auto_charge){
		.row = row->row,
		.n_layers = n,
		.has_non_mapped = plan->n_charges == 0,
		.kv_bytes = t->kv_bytes * n,
		.act_bytes = t->mapped,
		.reserve_bytes = row->avail - capacity(row),
	};
	if (plan->n_charges > 0) {
		c->first = c[-1].first + c[-1].n_layers;
	} else {
		c->weight_bytes = t->q->non_mapped_bytes;
		c->act_bytes = gm_max(t->mapped, t->other);
	}
	for (uint32_t j = 0; j < n; j++)
		c->weight_bytes += t->q->layer_bytes[c->first + j];
	c->left_bytes =
		capacity(row) - c->weight_bytes - c->kv_bytes - c->act_bytes;
	plan->n_charges++;
}

/* ---- fill ---------------------------------------------------------------- */

static int run_fill(struct task *t, struct gm_fill *ret)
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
		.mapped_act_elems = q->mapped_act_elems,
		.non_mapped_act_elems = q->non_mapped_act_elems,
		.dtype_bytes = q->dtype_bytes,
		.max_seq_len = q->max_seq_len,
		.max_batch_size = q->max_batch_size,
		.kv = q->kv,
		/* With hosts only there is no memory by which to size a
		 * pool. */
		.paged = t->n_devices > 0 ? q->paged : NULL,
	};
	uint32_t placed = 0;
	int r;

	for (uint32_t i = 0; i < t->n_rows; i++)
		devices[i] =
			(struct gm_fill_device){ t->rows[i].avail,
						 t->rows[i].is_host,
						 t->rows[i].is_integrated };
	r = gm_fill_make(&f, ret, t->err);
	if (r)
		return r;
	for (size_t i = 0; i < ret->n_charges; i++)
		placed += ret->charges[i].n_layers;
	if (placed == q->n_layers)
		return 0;
	/* Filling stops when all weights have a place, even if layers are
	 * left. */
	gm_fill_free(ret);
	return gm_error_set(t->err, -ENOSPC, "lower max_seq_len or the batch",
			    "The last %" PRIu32 " layers, of no bytes, find no "
			    "room for their KV cache",
			    q->n_layers - placed);
}

static int fill(struct task *t, struct gm_auto *plan)
{
	struct gm_fill filled;
	int r = run_fill(t, &filled);

	if (r)
		return r;
	t->is_paged = filled.is_paged;
	t->kv_bytes = filled.kv_bytes;
	for (size_t i = 0; i < filled.n_charges && plan; i++)
		charge(t, plan, filled.charges[i].device,
		       filled.charges[i].n_layers);
	gm_fill_free(&filled);
	return 0;
}

/* ---- balance and fewest -------------------------------------------------- */

/* Balance on the first @n rows; @plan is NULL if only the result matters. */
static int balance_on(struct task *t, uint32_t n, struct gm_auto *plan)
{
	const struct gm_auto_request *q = t->q;
	struct gm_balance_row rows[GM_AUTO_ROWS];
	struct gm_balance_request b = {
		.goal = q->strategy == GM_STRATEGY_FEWEST ? GM_FEWEST
							  : GM_BALANCE,
		.rows = rows,
		.n_rows = n,
		.layer_bytes = q->layer_bytes,
		.n_layers = q->n_layers,
		.kv_bytes = t->kv_bytes,
		.mapped_act_bytes = t->mapped,
		.non_mapped_act_bytes = t->other,
		.non_mapped_bytes = q->non_mapped_bytes,
	};
	struct gm_balance balanced;
	int r;

	for (uint32_t i = 0; i < n; i++)
		rows[i] = (struct gm_balance_row){ capacity(&t->rows[i]),
						   t->rows[i].speed };
	if (!plan)
		return gm_balance_fits(&b, t->err);
	r = gm_balance_make(&b, &balanced, t->err);
	if (r)
		return r;
	for (uint32_t i = 0; i < balanced.n_ranges; i++)
		charge(t, plan, balanced.ranges[i].row, balanced.ranges[i].n);
	gm_balance_free(&balanced);
	return 0;
}

static int balance(struct task *t, struct gm_auto *plan)
{
	bool has_hosts = t->n_rows > t->n_devices;
	bool is_paged = t->q->paged && t->n_devices > 0;
	int r = measure_kv(t, is_paged);

	if (r)
		return r;
	if (t->n_devices > 0 || !has_hosts) {
		r = balance_on(t, t->n_devices, plan);
		if (r != -ENOSPC || !has_hosts)
			return r;
	}
	/* If hosts are allowed the cache is unpaged, as in fill. */
	if (is_paged) {
		r = measure_kv(t, false);
		if (r == 0)
			r = balance_on(t, t->n_devices, plan);
		if (r != -ENOSPC)
			return r;
	}
	return balance_on(t, t->n_rows, plan);
}

/* ---- any ----------------------------------------------------------------- */

static int make(const struct gm_auto_request *q, struct gm_auto *plan,
		struct gm_plan_error *err)
{
	struct task t = { .q = q, .err = err };
	int r;

	if (q->n_rows > GM_AUTO_ROWS)
		return gm_error_set(err, -E2BIG, "leave some out",
				    "%" PRIu32 " rows, at most %u are allowed",
				    q->n_rows, GM_AUTO_ROWS);
	order_rows(&t);
	r = measure(&t);
	if (r == 0)
		r = q->strategy == GM_STRATEGY_FILL ? fill(&t, plan)
						    : balance(&t, plan);
	if (r == 0 && plan) {
		plan->is_paged = t.is_paged;
		plan->kv_bytes = t.kv_bytes;
	}
	return r;
}

int gm_auto_make(const struct gm_auto_request *q, struct gm_auto *ret_auto,
		 struct gm_plan_error *ret_err)
{
	struct gm_auto plan = { 0 };
	int r;

	plan.charges = calloc((size_t)q->n_rows + 1, sizeof(*plan.charges));
	if (!plan.charges)
		return gm_error_no_memory(ret_err);
	r = make(q, &plan, ret_err);
	if (r)
		gm_auto_free(&plan);
	else
		*ret_auto = plan;
	return r;
}

bool gm_auto_fits(const struct gm_auto_request *q)
{
	return make(q, NULL, NULL) == 0;
}

void gm_auto_free(struct gm_auto *plan)
{
	if (!plan)
		return;
	free(plan->charges);
	*plan = (struct gm_auto){ 0 };
}

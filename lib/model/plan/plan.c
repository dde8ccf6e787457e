/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/model/plan/checked.h"
#include "lib/model/plan/heads.h"
#include "lib/model/plan/plan_draft.h"
#include "lib/model/plan/rule.h"
#include "lib/model/plan/size_text.h"
#include "lib/model/plan/spec.h"
#include "shm/device_kinds.h"
#include "shm/layout.h"
#include "shm/ops.h"
#include "shm/score.h"

uint64_t gm_plan_speed(bool is_host, uint32_t units, uint64_t free_bytes,
		       uint32_t cc_major)
{
	double speed = 1024 * (is_host ? gm_score((int32_t)units, 0, 0)
				       : gm_score((int32_t)units, free_bytes,
						  (int32_t)cc_major));

	if (!(speed > 1))
		return 1;
	return speed < 1e15 ? (uint64_t)speed : (uint64_t)1e15;
}

void gm_plan_number(struct gm_plan_device *devices, uint32_t n)
{
	uint64_t ordinal = 0;

	for (uint32_t i = 0; i < n; i++)
		devices[i].at =
			devices[i].is_host
				? (struct gm_location){ GM_LOCATION_CPU, 0 }
			: devices[i].is_cuda
				? (struct gm_location){ GM_LOCATION_CUDA,
							ordinal++ }
				: (struct gm_location){ GM_LOCATION_OTHER,
							devices[i].row };
}

bool gm_plan_is_drained(const struct gm_plan_request *q, uint32_t row)
{
	for (uint32_t i = 0; i < q->n_drained; i++)
		if (q->drained[i] == row)
			return true;
	return false;
}

int gm_plan_choose(struct gm_plan_request *q, struct gm_plan_device *devices,
		   uint32_t n, uint32_t *drained, bool takes_dummies,
		   uint32_t *ret_row)
{
	struct gm_plan_device usable[GPUMAP_ROWS_MAX];
	uint32_t n_usable = 0, n_dummies = 0;

	gm_plan_number(devices, n);
	q->devices = devices;
	q->drained = drained;
	q->n_devices = q->n_drained = q->n_dummies = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (devices[i].is_drained) {
			drained[q->n_drained++] = devices[i].row;
			continue;
		}
		n_dummies += devices[i].is_dummy;
		usable[n_usable++] = devices[i];
	}
	for (uint32_t i = 0; i < q->ask.n_rows; i++) {
		uint32_t at = 0;

		while (at < n_usable && usable[at].row != q->ask.rows[i])
			at++;
		*ret_row = q->ask.rows[i];
		if (at == n_usable)
			return -ENODEV;
		devices[q->n_devices++] = usable[at];
	}
	if (q->ask.n_rows > 0)
		return 0;
	takes_dummies |= n_dummies == n_usable;
	for (uint32_t i = 0; i < n_usable; i++)
		if (takes_dummies || !usable[i].is_dummy)
			devices[q->n_devices++] = usable[i];
	q->n_dummies = n_usable - q->n_devices;
	return 0;
}

void gm_plan_warn(struct gm_plan_draft *d, const char *format, ...)
{
	char *line, *all, *before = d->plan.warnings;
	va_list args;

	va_start(args, format);
	if (vasprintf(&line, format, args) < 0)
		line = NULL;
	va_end(args);
	if (line && asprintf(&all, "%s%s%s", before ? before : "",
			     before ? "\n" : "", line) >= 0) {
		free(before);
		d->plan.warnings = all;
	} else {
		d->lacks_warning = true;
	}
	free(line);
}

/* ---- dtype --------------------------------------------------------------- */

static uint32_t own_dtype(const struct gm_plan_device *device)
{
	return gm_dtype_of_row(device->is_cuda, device->cc_major,
			       device->cc_minor);
}

static uint32_t own_bytes(const struct gm_plan_device *device)
{
	return gm_ops_dtype_bytes(own_dtype(device));
}

/* The smallest of the types that single rows would choose. */
static uint32_t best_dtype(const struct gm_plan_request *q)
{
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (own_dtype(&q->devices[i]) != GPUMAP_DTYPE_F32)
			return own_dtype(&q->devices[i]);
	return GPUMAP_DTYPE_F32;
}

/* The type for all rows in use, which include the base row. */
static uint32_t mapped_dtype(const struct gm_plan_draft *d)
{
	uint32_t last = d->plan.base_row;
	uint32_t dtype = own_dtype(gm_plan_find(d->q, last));

	for (uint32_t i = 0; i < d->n_ranks; i++)
		dtype = gm_dtype_weaker(dtype,
					own_dtype(&d->q->devices[d->ranks[i]]));
	for (uint32_t i = 0; i < d->plan.n_layers; i++) {
		if (d->plan.rows[i] == last)
			continue;
		last = d->plan.rows[i];
		dtype = gm_dtype_weaker(dtype,
					own_dtype(gm_plan_find(d->q, last)));
	}
	return dtype;
}

/* ---- by strategy --------------------------------------------------------- */

static bool is_left_out(const struct gm_plan_draft *d,
			const struct gm_plan_device *device)
{
	return d->is_narrow &&
	       own_bytes(device) > gm_ops_dtype_bytes(d->plan.compute_dtype);
}

/* Rows in the order given, hosts after all others; if a row is integrated the
 * hosts are left out, since its memory is theirs. */
static uint32_t order_rows(const struct gm_plan_draft *d,
			   struct gm_plan_device rows[GPUMAP_ROWS_MAX],
			   uint32_t *ret_n_devices)
{
	const struct gm_plan_request *q = d->q;
	bool integrated = false;
	uint32_t n = 0;

	for (int hosts = 0; hosts < 2 - integrated; hosts++) {
		for (uint32_t i = 0; i < q->n_devices; i++) {
			const struct gm_plan_device *device = &q->devices[i];

			if (is_left_out(d, device))
				continue;
			integrated |= device->is_integrated;
			if (device->is_host == hosts)
				rows[n++] = *device;
		}
		if (!hosts)
			*ret_n_devices = n;
	}
	return n;
}

static void ask_strategy(const struct gm_plan_draft *d,
			 struct gm_plan_device rows[GPUMAP_ROWS_MAX],
			 struct gm_auto_request *ret)
{
	const struct gm_plan_request *q = d->q;
	uint32_t n_devices, n = order_rows(d, rows, &n_devices);

	*ret = (struct gm_auto_request){
		.strategy = q->ask.strategy,
		.rows = rows,
		.n_rows = n,
		.layer_bytes = q->ask.layer_bytes,
		.n_layers = q->ask.n_layers,
		.non_mapped_bytes = q->ask.other_bytes,
		.tied_bytes = q->ask.tied_bytes,
		.total_bytes = d->layer_bytes + q->ask.other_bytes,
		.mapped_act_elems = d->act_elems,
		.cache = d->cache,
	};
	ret->cache.n_layers = q->ask.n_layers;
	ret->cache.dtype_bytes = gm_ops_dtype_bytes(d->plan.compute_dtype);
	/* With hosts only there is no memory by which to size a pool. */
	if (!gm_plan_has_cache(d) || n_devices == 0)
		ret->cache.paged.budget = GPUMAP_PAGED_NONE;
}

/* Choose rows for the layers, with the plan's dtype. */
static int run_strategy(struct gm_plan_draft *d)
{
	struct gm_plan_device rows[GPUMAP_ROWS_MAX];
	struct gm_auto_request ask;
	struct gm_auto made;
	uint32_t layer = 0;
	int r;

	ask_strategy(d, rows, &ask);
	r = gm_auto_make(&ask, &made, d->err);
	/* Layers of no bytes may be left over for want of room for their KV
	 * cache. */
	if (r == 0 && made.n_left > 0)
		r = -ENOSPC;
	if (r == -ENOSPC)
		gm_auto_free(&made);
	if (r)
		return r;
	for (uint32_t i = 0; i < made.n_charges; i++)
		for (uint32_t j = 0; j < made.charges[i].n_layers; j++)
			d->plan.rows[layer++] = made.charges[i].row;
	d->plan.base_row = d->plan.rows[0];
	d->plan.is_paged = made.is_paged;
	free(d->kv_sums);
	d->kv_sums = made.kv_sums;
	made.kv_sums = NULL;
	gm_auto_free(&made);
	return gm_plan_charge_rows(d);
}

/* The type and the map depend on each other: see plan.h. */
static int settle(struct gm_plan_draft *d)
{
	uint32_t narrow = best_dtype(d->q), wide;
	int r;

	d->plan.compute_dtype = narrow;
	r = run_strategy(d);
	if (r)
		return r;
	wide = mapped_dtype(d);
	if (gm_ops_dtype_bytes(wide) ==
	    gm_ops_dtype_bytes(d->plan.compute_dtype)) {
		d->plan.compute_dtype = wide;
		return 0;
	}
	/*
	 * The other map may not use the weaker rows: then this type is wider
	 * than necessary, but still correct.
	 */
	d->plan.compute_dtype = wide;
	r = run_strategy(d);
	if (r != -ENOSPC)
		return r;
	/* The model is too large in the wider type; it may fit on the other
	 * rows alone. */
	d->plan.compute_dtype = narrow;
	d->is_narrow = true;
	r = run_strategy(d);
	if (r == 0) {
		d->plan.compute_dtype = mapped_dtype(d);
		return 0;
	}
	d->plan.compute_dtype = wide;
	d->is_narrow = false;
	return r;
}

/* If the sizes do not depend on the mapped rows, the strategy's answer is
 * final. */
static bool only_fits(const struct gm_plan_draft *d, int *ret)
{
	struct gm_plan_device rows[GPUMAP_ROWS_MAX];
	uint32_t bytes = gm_ops_dtype_bytes(d->plan.compute_dtype);
	struct gm_auto_request ask;

	if (!d->only_asks)
		return false;
	for (uint32_t i = 0; i < d->q->n_devices && d->ask->compute_dtype == 0;
	     i++)
		if (own_bytes(&d->q->devices[i]) != bytes)
			return false;
	ask_strategy(d, rows, &ask);
	*ret = gm_auto_fits(&ask) ? 0 : -ENOSPC;
	return true;
}

/* Does layer 0 fit on some row, but on no row together with the weights of no
 * layer? */
static bool is_shut_out(const struct gm_plan_draft *d)
{
	const struct gpumap_plan_request *ask = d->ask;
	uint64_t need =
		ask->layer_bytes[0] + d->kv_sums[1] +
		d->act_elems * gm_ops_dtype_bytes(d->plan.compute_dtype);
	bool alone = false;

	for (uint32_t i = 0; i < d->q->n_devices; i++) {
		const struct gm_plan_device *device = &d->q->devices[i];
		uint64_t room = gm_place_capacity(device);

		if (room >= need && room - need >= ask->other_bytes)
			return false;
		alone |= room >= need;
	}
	return alone;
}

/* Sum the usable bytes of all rows that count, and find the first that is no
 * host. */
static uint64_t add_up(const struct gm_plan_request *q,
		       const struct gm_plan_device **ret_first)
{
	bool integrated = false;
	uint64_t have = 0;

	*ret_first = NULL;
	for (uint32_t i = q->n_devices; i-- > 0;) {
		integrated |= q->devices[i].is_integrated;
		if (!q->devices[i].is_host)
			*ret_first = &q->devices[i];
	}
	for (uint32_t i = 0; i < q->n_devices; i++) {
		const struct gm_plan_device *device = &q->devices[i];
		uint64_t room = gm_place_capacity(device);

		if (!device->is_host || !integrated)
			have += gm_min(room, UINT64_MAX - have);
	}
	return have;
}

/* Write what else the rows lack, or the request, or nothing. */
static void find_more(const struct gm_plan_draft *d, char ret_text[256])
{
	char size[GM_SIZE_TEXT];
	int n = 0;

	ret_text[0] = '\0';
	if (is_shut_out(d))
		n = snprintf(ret_text, 256,
			     "; the %s that are no layer's find no room beside "
			     "one",
			     gm_size_text(d->ask->other_bytes, size));
	if (d->q->n_dummies > 0)
		snprintf(ret_text + n, 256 - (size_t)n,
			 "; %" PRIu32 " dummy rows are left out: no list of "
			 "rows names them",
			 d->q->n_dummies);
}

/* Report in rows: the strategies count positions. */
static int does_not_fit(struct gm_plan_draft *d)
{
	const struct gpumap_plan_request *ask = d->ask;
	const struct gm_plan_device *first;
	uint64_t have = add_up(d->q, &first), need;
	char size[2][GM_SIZE_TEXT], more[256];
	bool over = false, whole;
	int r = gm_plan_measure_kv(d, first);

	if (r)
		return r; /* not even a page */
	need = gm_checked_add(&over, d->layer_bytes + ask->other_bytes,
			      d->kv_sums[ask->n_layers]);
	if (over)
		need = UINT64_MAX;
	whole = need > have;
	find_more(d, more);
	return gm_error_set(
		d->err, -ENOSPC,
		"lower max_seq_len or the batch, quantise, or add memory",
		"The model does not fit: it takes %s and activations, %s%s%s%s",
		gm_size_text(need, size[0]), whole ? "" : "and the rows have ",
		gm_size_text(whole ? need - have : have, size[1]),
		whole ? " more than the rows have" : " but not in whole layers",
		more);
}

static bool has_charge(const struct gm_plan *plan, uint32_t row)
{
	for (uint32_t i = 0; i < plan->n_charges; i++)
		if (plan->charges[i].row == row)
			return true;
	return false;
}

/* Warn of rows that strategies leave out. */
static void warn_of_left_out(struct gm_plan_draft *d)
{
	for (uint32_t i = 0; i < d->q->n_devices; i++)
		if (is_left_out(d, &d->q->devices[i]))
			gm_plan_warn(d,
				     "Row %" PRIu32
				     " is left out: it cannot do %s, and in a "
				     "wider type the model does not fit",
				     d->q->devices[i].row,
				     gm_ops_dtype_name(d->plan.compute_dtype));
}

/* Warn of rows that fill skipped; hosts come after them all. */
static void warn_of_empty(struct gm_plan_draft *d)
{
	uint32_t last = d->plan.charges[d->plan.n_charges - 1].row;

	for (uint32_t i = 0; i < d->q->n_devices; i++) {
		const struct gm_plan_device *device = &d->q->devices[i];

		if (device->is_host || is_left_out(d, device))
			continue;
		if (device->row == last)
			break;
		if (!has_charge(&d->plan, device->row))
			gm_plan_warn(d, "Row %" PRIu32 " can fit 0 layers",
				     device->row);
	}
}

static int plan_by_strategy(struct gm_plan_draft *d)
{
	const struct gm_plan_request *q = d->q;
	int r;

	if (d->base_row != GM_ROW_FIRST)
		return gm_error_set(d->err, -EINVAL, "leave the base row out",
				    "An automatic map chooses its base row");
	if (!q->ask.layer_bytes)
		return gm_error_set(d->err, -EINVAL, "give the model's sizes",
				    "An automatic map needs the bytes of each "
				    "layer");
	d->plan.compute_dtype =
		d->ask->compute_dtype ? d->ask->compute_dtype : best_dtype(q);
	if (only_fits(d, &r))
		return r;
	d->plan.n_layers = q->ask.n_layers;
	d->plan.rows = calloc(d->plan.n_layers, sizeof(*d->plan.rows));
	if (!d->plan.rows)
		return gm_error_no_memory(d->err);
	r = d->ask->compute_dtype ? run_strategy(d) : settle(d);
	if (r == -ENOSPC && !d->only_asks)
		return does_not_fit(d);
	if (r == 0)
		r = gm_plan_check_rows(d);
	if (r == 0)
		warn_of_left_out(d);
	if (r == 0 && d->ask->strategy <= GPUMAP_STRATEGY_FILL)
		warn_of_empty(d);
	return r;
}

/* ---- any ----------------------------------------------------------------- */

static int plan_as_said(struct gm_plan_draft *d)
{
	int r;

	d->plan.compute_dtype =
		d->ask->compute_dtype ? d->ask->compute_dtype : mapped_dtype(d);
	r = gm_plan_measure_kv(d, gm_plan_first_device(d));
	if (r == 0)
		r = gm_plan_charge_rows(d);
	if (r == 0 && d->q->must_fit)
		r = gm_plan_check_rows(d);
	return r;
}

static void warn_of_caches(struct gm_plan_draft *d)
{
	uint32_t first = 0, n = 0, layer = 0;

	for (uint32_t i = 0; i < d->ask->n_caches; i++) {
		const struct gpumap_layer_cache *c = &d->ask->caches[i];

		if (c->n_heads == 0 && n == 0)
			first = layer;
		if (c->n_heads == 0)
			n += c->n_layers;
		layer += c->n_layers;
	}
	if (n == 1)
		gm_plan_warn(d,
			     "It is not known what layer %" PRIu32
			     " keeps of a sequence: no cache is charged for "
			     "it; say it (gpumapctl: --kv-elements)",
			     first);
	else if (n > 1)
		gm_plan_warn(d,
			     "It is not known what layer %" PRIu32
			     " and %" PRIu32
			     " others keep of a sequence: no cache is charged "
			     "for them; say it (gpumapctl: --kv-elements)",
			     first, n - 1);
}

static void warn_of_unknown(struct gm_plan_draft *d)
{
	const struct gpumap_plan_request *ask = d->ask;

	if (!ask->layer_bytes)
		gm_plan_warn(d, "The bytes of the layers are not known: they "
				"are not charged");
	if (!gm_plan_has_cache(d))
		gm_plan_warn(d, "What the layers keep of a sequence is not "
				"known: no KV cache is charged");
	if (!d->q->like)
		warn_of_caches(d);
	if (ask->n_heads == 0)
		gm_plan_warn(d, "The number of attention heads is not known: "
				"no activations are charged");
	if (gm_plan_has_cache(d) &&
	    d->cache.paged.budget != GPUMAP_PAGED_NONE && !d->plan.is_paged)
		gm_plan_warn(d, "A host holds layers: the KV cache is not "
				"paged");
}

/* Warn of layers on hosts where the request has other rows. */
static void warn_of_hosts(struct gm_plan_draft *d)
{
	uint32_t n_layers = 0;
	bool others = false;

	for (uint32_t i = 0; i < d->q->n_devices; i++)
		others |= !d->q->devices[i].is_host;
	for (uint32_t i = 0; i < d->plan.n_charges; i++) {
		const struct gpumap_charge *c = &d->plan.charges[i];

		if (gm_plan_find(d->q, c->row)->is_host)
			n_layers += c->n_layers;
	}
	if (!others || n_layers == 0)
		return;
	gm_plan_warn(d,
		     "%" PRIu32 " of %" PRIu32 " layers are on host "
		     "rows: CPUs compute them, which takes far longer; "
		     "lower max_seq_len or the batch, quantise, or name "
		     "more rows",
		     n_layers, d->plan.n_layers);
}

static void warn_of_ranks(struct gm_plan_draft *d)
{
	struct gm_plan_error error;

	if (d->n_ranks >= 2 && gm_heads_check(d->ask, d->n_ranks, &error) != 0)
		gm_plan_warn(d, "%s: engines refuse that; %s", error.text,
			     error.remedy);
}

static int print_spec(struct gm_plan_draft *d)
{
	struct gm_plan *plan = &d->plan;
	struct gm_spec_entry entries[GPUMAP_ROWS_MAX];
	struct gm_spec spec = { .entries = entries };

	for (uint32_t i = 0; i < plan->n_layers; i++) {
		size_t at = 0;

		if (i > 0 && plan->rows[i] == plan->rows[i - 1]) {
			entries[spec.n_entries - 1].layers++;
			continue;
		}
		while (at < spec.n_entries && entries[at].row != plan->rows[i])
			at++;
		if (at < spec.n_entries)
			return 0;
		entries[spec.n_entries++] =
			(struct gm_spec_entry){ plan->rows[i], 1 };
	}
	return gm_spec_print(&spec, &plan->spec) ? gm_error_no_memory(d->err)
						 : 0;
}

static int check(const struct gm_plan_request *q, struct gm_plan_error *err)
{
	if (q->n_devices == 0)
		return gm_error_set(err, -ENODEV,
				    "look at gpumapctl devices for the reason",
				    "There are no rows to plan on");
	if (q->n_devices > GPUMAP_ROWS_MAX)
		return gm_error_set(err, -E2BIG, "leave some out",
				    "%" PRIu32 " rows, at most %u are allowed",
				    q->n_devices, GPUMAP_ROWS_MAX);
	if (q->ask.n_layers > GM_LAYERS_MAX)
		return gm_error_many_layers(err);
	if (q->ask.paged != GPUMAP_PAGED_NONE &&
	    !gm_rule_of(q->ask.engine)->has_pool)
		return gm_error_set(err, -EINVAL,
				    "give the tokens of a sequence and the "
				    "batch",
				    "%s has no paged KV cache",
				    gm_rule_of(q->ask.engine)->release);
	return 0;
}

int gm_plan_try(const struct gm_plan_request *q, struct gm_plan *ret_plan,
		struct gm_plan_error *ret_err)
{
	struct gm_plan_draft d = {
		.q = q,
		.ask = &q->ask,
		.base_row = q->ask.flags & GPUMAP_PLAN_BASE ? q->ask.base_row
							    : GM_ROW_FIRST,
		.cache = gm_cache_of(&q->ask),
		.only_asks = !ret_plan,
		.err = ret_err,
	};
	int r = check(q, ret_err);

	d.cache.like = q->like;
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (!q->devices[i].is_host)
			d.cache.card_bytes =
				gm_max(d.cache.card_bytes, q->devices[i].total);
	if (r == 0)
		r = gm_plan_place(&d);
	if (r == 0)
		r = gm_plan_measure(&d);
	if (r == 0)
		r = d.is_auto ? plan_by_strategy(&d) : plan_as_said(&d);
	if (r == 0 && ret_plan) {
		warn_of_unknown(&d);
		warn_of_hosts(&d);
		warn_of_ranks(&d);
		r = d.lacks_warning ? gm_error_no_memory(ret_err)
				    : print_spec(&d);
	}
	if (r == 0 && ret_plan)
		*ret_plan = d.plan;
	else
		gm_plan_free(&d.plan);
	free(d.kv_sums);
	return r;
}

int gm_plan_make(const struct gm_plan_request *q, struct gm_plan *ret_plan,
		 struct gm_plan_advice *ret_advice,
		 struct gm_plan_error *ret_err)
{
	int r = gm_plan_try(q, ret_plan, ret_err);

	if (r == -ENOSPC && ret_advice &&
	    gm_plan_advise(q, ret_advice, ret_err))
		return -ENOMEM;
	return r;
}

void gm_plan_free(struct gm_plan *plan)
{
	if (!plan)
		return;
	free(plan->rows);
	free(plan->charges);
	free(plan->spec);
	free(plan->warnings);
	*plan = (struct gm_plan){ 0 };
}

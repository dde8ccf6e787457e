/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Assign layers to rows as the request describes. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/pipeline.h"
#include "lib/model/plan/place.h"
#include "lib/model/plan/plan_draft.h"

const struct gm_plan_device *gm_plan_find(const struct gm_plan_request *q,
					  uint32_t row)
{
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (q->devices[i].row == row)
			return &q->devices[i];
	return NULL;
}

static struct gm_place_request ask(const struct gm_plan_draft *d)
{
	const struct gm_plan_request *q = d->q;

	return (struct gm_place_request){
		.devices = q->devices,
		.n_devices = q->n_devices,
		.base_row = d->base_row,
		.n_layers = q->ask.n_layers,
		.host_layers = GM_LAYERS_REST,
		.drained = q->drained,
		.n_drained = q->n_drained,
	};
}

/* Place the layers as @p describes. */
static int take(struct gm_plan_draft *d, const struct gm_place_request *p)
{
	struct gm_place place;
	int r = gm_place_make(p, &place, d->err);

	if (r)
		return r;
	d->plan.n_layers = (uint32_t)place.n_layers;
	d->plan.base_row = place.base_row;
	d->plan.rows = gm_place_rows(&place);
	gm_place_free(&place);
	return d->plan.rows ? 0 : gm_error_no_memory(d->err);
}

/* Check the base row; without one choose the first that is no host, for
 * everything that has no other place. */
static int choose_base(const struct gm_plan_draft *d,
		       struct gm_place_request *p)
{
	const struct gm_plan_request *q = d->q;

	if (d->base_row != GM_ROW_FIRST && !gm_plan_find(q, d->base_row))
		return gm_place_no_row(p, d->base_row, NULL, d->err);
	if (d->base_row != GM_ROW_FIRST)
		return 0;
	p->base_row = q->devices[0].row;
	for (uint32_t i = q->n_devices; i-- > 0;)
		if (!q->devices[i].is_host)
			p->base_row = q->devices[i].row;
	return 0;
}

static int place_by_spec(struct gm_plan_draft *d)
{
	struct gm_place_request p = ask(d);
	struct gm_spec spec;
	int r = gm_spec_parse(d->ask->text, &spec, d->err);

	if (r)
		return r;
	p.map = &spec;
	if (p.n_layers == 0)
		p.n_layers = GM_LAYERS_UNKNOWN;
	r = take(d, &p);
	gm_spec_free(&spec);
	return r;
}

/* ---- topology ------------------------------------------------------------ */

static bool quantises(const struct gm_topology *t)
{
	for (size_t i = 0; i < t->n_ranges; i++)
		if (t->ranges[i].entry.has_isq)
			return true;
	return t->pattern_has_isq;
}

static bool has_cuda(const struct gm_plan_request *q)
{
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (q->devices[i].at.kind == GM_LOCATION_CUDA)
			return true;
	return false;
}

static int place_by_topology(struct gm_plan_draft *d)
{
	const struct gm_topology *topology = d->q->topology;
	struct gm_place_request p = ask(d);
	int r = 0;

	if (!topology)
		return gm_error_set(d->err, -EINVAL, "give the file's text",
				    "A topology without a text");
	d->is_auto = !gm_topology_places(topology);
	if (quantises(topology))
		gm_plan_warn(d, "What the topology quantises is charged as it "
				"is stored");
	/* Rows that a strategy chooses later may be any of the request's. */
	if (r == 0 && d->is_auto && has_cuda(d->q) &&
	    !gm_topology_suits_cuda(topology, 0, UINT64_MAX))
		r = gm_isq_not_on_cuda(d->err);
	if (r == 0 && !d->is_auto)
		r = choose_base(d, &p);
	p.topology = topology;
	return r == 0 && !d->is_auto ? take(d, &p) : r;
}

/* ---- ranks --------------------------------------------------------------- */

uint32_t gm_plan_ranks(const struct gm_plan_request *q,
		       uint32_t ranks[GPUMAP_ROWS_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->n_devices; i++)
		if (!q->devices[i].is_host)
			ranks[n++] = i;
	if (n > 0 && q->ask.n_rows == 0)
		return n;
	for (n = 0; n < q->n_devices; n++)
		ranks[n] = n;
	return n;
}

static int place_on_ranks(struct gm_plan_draft *d)
{
	const struct gm_plan_request *q = d->q;
	uint32_t ranks[GPUMAP_ROWS_MAX], n = gm_plan_ranks(q, ranks);
	struct gm_spec_entry entries[GPUMAP_ROWS_MAX];
	const struct gm_spec spec = { .n_entries = n, .entries = entries };
	struct gm_place_request p = ask(d);
	uint64_t counts[GPUMAP_ROWS_MAX];
	int r = choose_base(d, &p);

	if (r == 0)
		r = gm_pipeline_split(q->ask.n_layers, n, q->ask.text,
				      q->ask.weights, counts, d->err);
	if (r)
		return r;
	for (uint32_t i = 0; i < n; i++)
		entries[i] = (struct gm_spec_entry){ q->devices[ranks[i]].row,
						     counts[i] };
	p.map = &spec;
	if (d->base_row == GM_ROW_FIRST)
		p.base_row = q->devices[ranks[0]].row;
	return take(d, &p);
}

/* Make the rank on @row the first. */
static bool lead_with(struct gm_plan_draft *d, uint32_t row)
{
	for (uint32_t i = 0; i < d->n_ranks; i++) {
		uint32_t first = d->ranks[i];

		if (d->q->devices[first].row != row)
			continue;
		memmove(d->ranks + 1, d->ranks, i * sizeof(d->ranks[0]));
		d->ranks[0] = first;
		return true;
	}
	return false;
}

static int place_for_nccl(struct gm_plan_draft *d)
{
	const struct gm_plan_request *q = d->q;
	struct gm_place_request p = ask(d);

	d->n_ranks = gm_plan_ranks(q, d->ranks);
	if ((d->n_ranks & (d->n_ranks - 1)) != 0)
		return gm_error_set(d->err, -EINVAL,
				    "choose 1, 2, 4, 8... rows",
				    "Tensor parallelism needs a power of 2 of "
				    "rows, not %" PRIu32,
				    d->n_ranks);
	if (d->base_row != GM_ROW_FIRST && !lead_with(d, d->base_row))
		return gm_error_set(d->err, -ENODEV, "leave the base row out",
				    "Row %" PRIu32 " is none of the ranks",
				    d->base_row);
	p.base_row = q->devices[d->ranks[0]].row;
	return take(d, &p);
}

int gm_plan_place(struct gm_plan_draft *d)
{
	struct gm_place_request p = ask(d);
	int r;

	if (d->ask->n_layers == 0 && d->ask->setting != GPUMAP_SETTING_MANUAL)
		return gm_error_no_layers(d->err);
	switch (d->ask->setting) {
	case GPUMAP_SETTING_MANUAL:
		return place_by_spec(d);
	case GPUMAP_SETTING_AUTO:
		d->is_auto = true;
		return 0;
	case GPUMAP_SETTING_TOPOLOGY:
		return place_by_topology(d);
	case GPUMAP_SETTING_DUMMY:
		r = choose_base(d, &p);
		return r ? r : take(d, &p);
	case GPUMAP_SETTING_NCCL:
		return place_for_nccl(d);
	case GPUMAP_SETTING_PIPELINE:
		return place_on_ranks(d);
	}
	return gm_error_set(d->err, -EINVAL, "correct the request",
			    "%u is no setting", (unsigned int)d->ask->setting);
}

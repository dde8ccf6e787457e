/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Assign layers to rows as the request's text describes. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/location.h"
#include "agent/plan/mapper.h"
#include "agent/plan/pipeline.h"
#include "agent/plan/placement.h"
#include "agent/plan/plan_draft.h"
#include "agent/plan/spec.h"
#include "agent/plan/topology.h"

const struct gm_plan_device *gm_plan_find(const struct gm_plan_request *q,
					  uint32_t row)
{
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (q->devices[i].row == row)
			return &q->devices[i];
	return NULL;
}

static int reserve_rows(struct gm_plan_draft *d)
{
	d->plan.n_layers = d->q->model.n_layers;
	d->plan.rows = calloc(d->plan.n_layers, sizeof(*d->plan.rows));
	return d->plan.rows ? 0 : gm_error_no_memory(d->err);
}

static int no_such_row(const struct gm_plan_draft *d, uint32_t row)
{
	return gm_placement_no_row(row, d->q->drained, d->q->n_drained, NULL,
				   d->err);
}

/* Choose the device for everything that has no other place. */
static int choose_base(const struct gm_plan_draft *d,
		       const struct gm_plan_device **ret)
{
	const struct gm_plan_request *q = d->q;
	const struct gm_plan_device *device = &q->devices[0];

	if (q->base_row != GM_ROW_FIRST) {
		device = gm_plan_find(q, q->base_row);
		if (!device)
			return no_such_row(d, q->base_row);
	} else {
		for (uint32_t i = q->n_devices; i-- > 0;)
			if (!q->devices[i].is_host)
				device = &q->devices[i];
	}
	*ret = device;
	return 0;
}

static int place_by_spec(struct gm_plan_draft *d)
{
	const struct gm_plan_request *q = d->q;
	struct gm_plan_row rows[GM_PLAN_ROWS];
	struct gm_placement_request p = {
		.rows = rows,
		.n_rows = q->n_devices,
		.n_layers = q->model.n_layers ? q->model.n_layers
					      : GM_LAYERS_UNKNOWN,
		.host_layers = GM_LAYERS_REST,
		.base_row = q->base_row,
		.drained = q->drained,
		.n_drained = q->n_drained,
	};
	struct gm_placement place;
	struct gm_spec spec;
	int r;

	for (uint32_t i = 0; i < q->n_devices; i++)
		rows[i] = (struct gm_plan_row){ q->devices[i].row,
						q->devices[i].is_host };
	r = gm_spec_parse(q->text, &spec, d->err);
	if (r)
		return r;
	r = gm_placement_make(&spec, &p, &place, d->err);
	gm_spec_free(&spec);
	if (r)
		return r;
	d->plan.n_layers = place.n_layers;
	d->plan.base_row = place.base_row;
	d->plan.rows = place.rows;
	place.rows = NULL;
	gm_placement_free(&place);
	return 0;
}

static int place_on_base(struct gm_plan_draft *d)
{
	const struct gm_plan_device *base;
	int r = choose_base(d, &base);

	if (r == 0)
		r = reserve_rows(d);
	if (r)
		return r;
	d->plan.base_row = base->row;
	for (uint32_t i = 0; i < d->plan.n_layers; i++)
		d->plan.rows[i] = base->row;
	return 0;
}

/* ---- topology ------------------------------------------------------------ */

static struct gm_location location_of(const struct gm_plan_device *device)
{
	if (device->is_host)
		return (struct gm_location){ GM_LOCATION_CPU, 0 };
	if (device->cuda_ordinal < 0)
		return (struct gm_location){ GM_LOCATION_OTHER, device->row };
	return (struct gm_location){ GM_LOCATION_CUDA,
				     (uint64_t)device->cuda_ordinal };
}

/* The base comes first: if it is a host, it is the CPU. */
static const struct gm_plan_device *device_at(const struct gm_plan_request *q,
					      const struct gm_plan_device *base,
					      const struct gm_location *at)
{
	struct gm_location location = location_of(base);

	if (gm_location_equal(&location, at))
		return base;
	for (uint32_t i = 0; i < q->n_devices; i++) {
		location = location_of(&q->devices[i]);
		if (gm_location_equal(&location, at))
			return &q->devices[i];
	}
	return NULL;
}

static int take_runs(struct gm_plan_draft *d, const struct gm_mapper *mapper,
		     const struct gm_plan_device *base)
{
	int r = reserve_rows(d);

	d->plan.base_row = base->row;
	for (size_t i = 0; i < mapper->n_runs && r == 0; i++) {
		const struct gm_mapper_run *run = &mapper->runs[i];
		const struct gm_plan_device *device =
			device_at(d->q, base, &run->location);

		if (!device)
			return gm_error_set(
				d->err, -ENODEV,
				"name another device, or configure a host row",
				"The topology names the cpu, and there is no "
				"host row");
		for (uint64_t j = 0; j < run->n; j++)
			d->plan.rows[run->first + j] = device->row;
	}
	return r;
}

static int place_by_mapper(struct gm_plan_draft *d,
			   const struct gm_topology *topology)
{
	struct gm_location locations[GM_PLAN_ROWS];
	struct gm_mapper_request m = {
		.host_layers = GM_LAYERS_REST,
		.topology = topology,
		.n_layers = d->q->model.n_layers,
		.devices = locations,
		.n_devices = d->q->n_devices,
	};
	const struct gm_plan_device *base;
	struct gm_mapper mapper;
	int r = choose_base(d, &base);

	if (r)
		return r;
	m.base = location_of(base);
	for (uint32_t i = 0; i < d->q->n_devices; i++)
		locations[i] = location_of(&d->q->devices[i]);
	r = gm_mapper_make(&m, &mapper, d->err);
	if (r)
		return r;
	r = take_runs(d, &mapper, base);
	gm_mapper_free(&mapper);
	return r;
}

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
		if (q->devices[i].cuda_ordinal >= 0)
			return true;
	return false;
}

static int place_by_topology(struct gm_plan_draft *d)
{
	struct gm_topology topology;
	int r;

	if (!d->q->text)
		return gm_error_set(d->err, -EINVAL, "give the file's text",
				    "A topology without a text");
	r = gm_topology_parse(d->q->text, strlen(d->q->text), &topology,
			      d->err);
	if (r)
		return r;
	d->is_auto = !gm_topology_places(&topology);
	if (quantises(&topology))
		r = gm_plan_warn(d, "What the topology quantises is charged "
				    "as it is stored");
	/* Rows that a strategy chooses later may be any of the request's. */
	if (r == 0 && d->is_auto && has_cuda(d->q) &&
	    !gm_topology_suits_cuda(&topology, 0, UINT64_MAX))
		r = gm_isq_not_on_cuda(d->err);
	if (r == 0 && !d->is_auto)
		r = place_by_mapper(d, &topology);
	gm_topology_free(&topology);
	return r;
}

/* ---- ranks --------------------------------------------------------------- */

static uint32_t list_ranks(const struct gm_plan_request *q,
			   uint32_t ranks[GM_PLAN_ROWS])
{
	bool all = q->is_chosen;
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->n_devices; i++)
		if (!q->devices[i].is_host)
			ranks[n++] = i;
	if (n > 0 && !all)
		return n;
	for (n = 0; n < q->n_devices; n++)
		ranks[n] = n;
	return n;
}

static int place_on_ranks(struct gm_plan_draft *d)
{
	const struct gm_plan_request *q = d->q;
	uint32_t ranks[GM_PLAN_ROWS], n = list_ranks(q, ranks), layer = 0;
	uint64_t counts[GM_PLAN_ROWS];
	int r;

	if (q->base_row != GM_ROW_FIRST && !gm_plan_find(q, q->base_row))
		return no_such_row(d, q->base_row);
	r = gm_pipeline_split(q->model.n_layers, n, q->text, q->weights, counts,
			      d->err);
	if (r == 0)
		r = reserve_rows(d);
	for (uint32_t i = 0; i < n && r == 0; i++)
		for (uint64_t j = 0; j < counts[i]; j++)
			d->plan.rows[layer++] = q->devices[ranks[i]].row;
	d->plan.base_row = q->base_row != GM_ROW_FIRST
				   ? q->base_row
				   : q->devices[ranks[0]].row;
	return r;
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
	int r;

	d->n_ranks = list_ranks(q, d->ranks);
	if ((d->n_ranks & (d->n_ranks - 1)) != 0)
		return gm_error_set(d->err, -EINVAL,
				    "choose 1, 2, 4, 8... rows",
				    "Tensor parallelism needs a power of 2 of "
				    "rows, not %" PRIu32,
				    d->n_ranks);
	if (q->base_row != GM_ROW_FIRST && !lead_with(d, q->base_row))
		return gm_error_set(d->err, -ENODEV, "leave the base row out",
				    "Row %" PRIu32 " is none of the ranks",
				    q->base_row);
	r = reserve_rows(d);
	d->plan.base_row = q->devices[d->ranks[0]].row;
	for (uint32_t i = 0; i < d->plan.n_layers && r == 0; i++)
		d->plan.rows[i] = d->plan.base_row;
	return r;
}

int gm_plan_place(struct gm_plan_draft *d)
{
	if (d->q->model.n_layers == 0 && d->q->setting != GM_SETTING_MANUAL)
		return gm_error_no_layers(d->err);
	switch (d->q->setting) {
	case GM_SETTING_MANUAL:
		return place_by_spec(d);
	case GM_SETTING_AUTO:
		d->is_auto = true;
		return 0;
	case GM_SETTING_TOPOLOGY:
		return place_by_topology(d);
	case GM_SETTING_DUMMY:
		return place_on_base(d);
	case GM_SETTING_NCCL:
		return place_for_nccl(d);
	case GM_SETTING_PIPELINE:
		return place_on_ranks(d);
	}
	return gm_error_set(d->err, -EINVAL, "correct the request",
			    "%u is no setting", (unsigned int)d->q->setting);
}

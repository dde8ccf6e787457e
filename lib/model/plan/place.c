/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/model/plan/checked.h"
#include "shm/layout.h"

#define RESERVE_FRACTION 0.02
#define RESERVE_LEAST    (UINT64_C(512) << 20)

/* ---- devices ------------------------------------------------------------- */

static const struct gm_plan_device *find_row(const struct gm_place_request *q,
					     uint64_t row)
{
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (q->devices[i].row == row)
			return &q->devices[i];
	return NULL;
}

/* The base comes first: if it is a host, it is the CPU. */
static const struct gm_plan_device *find_at(const struct gm_place_request *q,
					    const struct gm_location *at)
{
	const struct gm_plan_device *base = find_row(q, q->base_row);

	if (base && gm_location_equal(&base->at, at))
		return base;
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (gm_location_equal(&q->devices[i].at, at))
			return &q->devices[i];
	return NULL;
}

static const struct gm_plan_device *find_host(const struct gm_place_request *q)
{
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (q->devices[i].is_host)
			return &q->devices[i];
	return NULL;
}

/* Print "0-3, 6", and "..." if there is no room for more. */
static void print_rows(const struct gm_place_request *q, char *text,
		       size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < q->n_devices; i++) {
		uint32_t first = q->devices[i].row;
		char run[32];

		while (i + 1 < q->n_devices &&
		       q->devices[i + 1].row == q->devices[i].row + 1)
			i++;
		if (q->devices[i].row == first)
			snprintf(run, sizeof(run), "%" PRIu32, first);
		else
			snprintf(run, sizeof(run), "%" PRIu32 "-%" PRIu32,
				 first, q->devices[i].row);
		if (used + sizeof(run) + 2 > size)
			snprintf(run, sizeof(run), "...");
		used += (size_t)snprintf(text + used, size - used, "%s%s",
					 used ? ", " : "", run);
		if (run[0] == '.')
			break;
	}
}

int gm_place_no_row(const struct gm_place_request *q, uint64_t row,
		    const char *rows, struct gm_plan_error *ret_err)
{
	for (uint32_t i = 0; i < q->n_drained; i++) {
		if (q->drained[i] == row)
			return gm_error_set(ret_err, -ENODEV,
					    "bring it back with gpumapctl "
					    "undrain or uncordon, or use "
					    "another row",
					    "Row %" PRIu64
					    " is drained or cordoned",
					    row);
	}
	return gm_error_set(ret_err, -ENODEV,
			    "use the rows that gpumapctl devices shows",
			    "Could not find row %" PRIu64 "%s%s", row,
			    rows ? ": the rows are " : "", rows ? rows : "");
}

static int no_such_row(const struct gm_place_request *q, uint64_t row,
		       struct gm_plan_error *err)
{
	char rows[256];

	if (q->n_devices == 0)
		return gm_error_set(err, -ENODEV,
				    "look at gpumapctl devices for the reason",
				    "Could not find row %" PRIu64
				    ": there are no rows",
				    row);
	print_rows(q, rows, sizeof(rows));
	return gm_place_no_row(q, row, rows, err);
}

static int no_such_device(const struct gm_location *at,
			  struct gm_plan_error *err)
{
	if (at->kind == GM_LOCATION_CPU)
		return gm_error_set(
			err, -ENODEV,
			"name another device, or configure a host row",
			"The topology names the cpu, and there is no host row");
	return gm_error_set(err, -ENODEV, "use the devices that are there",
			    "Could not find %s device with ordinal %" PRIu64,
			    at->kind == GM_LOCATION_CUDA ? "cuda" : "metal",
			    at->ordinal);
}

/* ---- runs ---------------------------------------------------------------- */

static int reserve(struct gm_place *p, size_t n, struct gm_plan_error *err)
{
	p->runs = calloc(n, sizeof(*p->runs));
	return p->runs ? 0 : gm_error_no_memory(err);
}

/* Add @n layers; the array has room. */
static void take(struct gm_place *p, const struct gm_plan_device *device,
		 uint64_t n)
{
	struct gm_place_run *last = p->n_runs ? &p->runs[p->n_runs - 1] : NULL;
	uint64_t first = last ? last->first + last->n : 0;

	if (n == 0)
		return;
	if (last && last->device == device)
		last->n += n;
	else
		p->runs[p->n_runs++] =
			(struct gm_place_run){ device, first, n };
}

static int place_on_base(const struct gm_place_request *q, struct gm_place *p,
			 struct gm_plan_error *err)
{
	int r = reserve(p, 1, err);

	if (r == 0)
		take(p, find_row(q, q->base_row), q->n_layers);
	return r;
}

static int place_by_topology(const struct gm_place_request *q,
			     struct gm_place *p, struct gm_plan_error *err)
{
	const struct gm_topology *t = q->topology;
	const struct gm_plan_device *base = find_row(q, q->base_row), *device;
	uint64_t end = gm_topology_end(t), layer = 0;
	int r;

	if (end > q->n_layers)
		return gm_error_set(err, -EINVAL,
				    "end the topology's ranges with the model",
				    "A topology range ends at layer %" PRIu64
				    " but the model has %" PRIu64,
				    end, q->n_layers);
	r = reserve(p, 2 * t->n_ranges + 1, err);
	for (size_t i = 0; i < t->n_ranges && r == 0; i++) {
		const struct gm_topology_range *range = &t->ranges[i];
		const struct gm_location *at = &range->entry.device;

		device = range->entry.has_device ? find_at(q, at) : base;
		/* A cpu that is not there is the last thing to be wrong. */
		if (!device && at->kind != GM_LOCATION_CPU)
			r = no_such_device(at, err);
		take(p, base, range->start - layer);
		take(p, device, range->end - range->start);
		layer = range->end;
	}
	if (r == 0)
		take(p, base, q->n_layers - layer);
	return r;
}

/* The layers of a model whose number only the map gives, and the host's. */
static int count_unknown(const struct gm_place_request *q, uint64_t *ret_layers,
			 uint64_t *ret_host, struct gm_plan_error *err)
{
	uint64_t host = q->host_layers == GM_LAYERS_REST ? 0 : q->host_layers;
	uint64_t placed = 0;
	int r = gm_spec_sum(q->map, &placed, err);

	if (r)
		return r;
	if (placed > GM_LAYERS_MAX || host > GM_LAYERS_MAX - placed)
		return gm_error_many_layers(err);
	if (placed + host == 0)
		return gm_error_set(err, -EINVAL,
				    "name the model, or place its layers",
				    "The map places no layers and the model's "
				    "number of layers is not known");
	*ret_layers = placed + host;
	*ret_host = host;
	return 0;
}

/* Each device that the map names must exist, even if it gets no layers. */
static int place_by_map(const struct gm_place_request *q, struct gm_place *p,
			struct gm_plan_error *err)
{
	const struct gm_spec *map = q->map;
	const struct gm_plan_device *base = find_row(q, q->base_row), *device;
	uint64_t host = 0;
	int r;

	if (!q->by_ordinal && q->n_layers == GM_LAYERS_UNKNOWN)
		r = count_unknown(q, &p->n_layers, &host, err);
	else if (!q->by_ordinal && q->n_layers > GM_LAYERS_MAX)
		r = gm_error_many_layers(err);
	else
		r = gm_spec_share(map, q->n_layers, q->host_layers, &host, err);
	if (r == 0)
		r = reserve(p, map->n_entries + 1, err);
	for (size_t i = 0; i < map->n_entries && r == 0; i++) {
		struct gm_location at = { GM_LOCATION_CPU, 0 };

		if (!q->by_ordinal) {
			device = find_row(q, map->entries[i].row);
		} else {
			if (base->at.kind != GM_LOCATION_CPU)
				at = (struct gm_location){
					base->at.kind, map->entries[i].row
				};
			device = find_at(q, &at);
		}
		if (!device)
			r = q->by_ordinal
				    ? no_such_device(&at, err)
				    : no_such_row(q, map->entries[i].row, err);
		take(p, device, map->entries[i].layers);
	}
	if (r == 0 && q->base_row != GM_ROW_FIRST && !base)
		r = no_such_row(q, q->base_row, err);
	if (r == 0 && host > 0 && !find_host(q))
		r = gm_error_set(err, -ENODEV,
				 "place every layer, or configure a host row",
				 "%" PRIu64 " of %" PRIu64 " layers are left "
				 "over, and there is no host row to take them",
				 host, p->n_layers);
	if (r == 0)
		take(p, find_host(q), host);
	return r;
}

/* ---- any ----------------------------------------------------------------- */

static int place(const struct gm_place_request *q, struct gm_place *p,
		 struct gm_plan_error *err)
{
	if (q->is_nccl)
		return place_on_base(q, p, err);
	if (q->map && q->map->is_auto)
		return gm_error_set(
			err, -EINVAL, "plan it first, or give a spec",
			q->by_ordinal
				? ".into_mapper does not work on Auto device "
				  "map, convert it to a Map with "
				  "DeviceMappedModelLoader::get_device_layers"
				: "An automatic map has no rows yet");
	if (q->topology && gm_topology_places(q->topology))
		return place_by_topology(q, p, err);
	return q->map ? place_by_map(q, p, err) : place_on_base(q, p, err);
}

/* Check what a topology quantises the layers of each run to, and its cpu. */
static int check_runs(const struct gm_place_request *q,
		      const struct gm_place *p, struct gm_plan_error *err)
{
	static const struct gm_location cpu = { GM_LOCATION_CPU, 0 };

	for (size_t i = 0; q->topology && i < p->n_runs; i++) {
		const struct gm_place_run *run = &p->runs[i];

		if (run->device && run->device->at.kind == GM_LOCATION_CUDA &&
		    !gm_topology_suits_cuda(q->topology, run->first, run->n))
			return gm_isq_not_on_cuda(err);
	}
	for (size_t i = 0; i < p->n_runs; i++)
		if (!p->runs[i].device)
			return no_such_device(&cpu, err);
	return 0;
}

int gm_place_make(const struct gm_place_request *q, struct gm_place *ret_place,
		  struct gm_plan_error *ret_err)
{
	struct gm_place p = { .n_layers = q->n_layers };
	int r;

	if (q->n_layers == 0 && (!q->map || q->by_ordinal))
		return gm_error_no_layers(ret_err);
	r = place(q, &p, ret_err);
	if (r == 0)
		r = check_runs(q, &p, ret_err);
	if (r) {
		gm_place_free(&p);
		return r;
	}
	p.base_row = q->base_row == GM_ROW_FIRST ? p.runs[0].device->row
						 : q->base_row;
	*ret_place = p;
	return 0;
}

uint32_t *gm_place_rows(const struct gm_place *p)
{
	uint32_t *rows = calloc(p->n_layers, sizeof(*rows)), *at = rows;

	for (size_t i = 0; rows && i < p->n_runs; i++)
		for (uint64_t n = p->runs[i].n; n > 0; n--)
			*at++ = p->runs[i].device->row;
	return rows;
}

void gm_place_free(struct gm_place *p)
{
	if (!p)
		return;
	free(p->runs);
	*p = (struct gm_place){ 0 };
}

uint64_t gm_place_capacity(const struct gm_plan_device *device)
{
	uint64_t avail = device->avail, reserve;

	if (device->is_host)
		return avail;
	/* A product of a double below 2^59: the conversion is defined. */
	reserve = gm_max((uint64_t)((double)avail * RESERVE_FRACTION),
			 RESERVE_LEAST);
	return gm_minus(avail, reserve);
}

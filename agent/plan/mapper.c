/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/mapper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const struct gm_location cpu = { GM_LOCATION_CPU, 0 };

static bool is_there(const struct gm_mapper_request *q,
		     const struct gm_location *location)
{
	if (location->kind == GM_LOCATION_CPU ||
	    gm_location_equal(location, &q->base))
		return true;
	for (size_t i = 0; i < q->n_devices; i++)
		if (gm_location_equal(location, &q->devices[i]))
			return true;
	return false;
}

static int check_device(const struct gm_mapper_request *q,
			const struct gm_location *location,
			struct gm_plan_error *err)
{
	if (is_there(q, location))
		return 0;
	return gm_error_set(err, -ENODEV, "use the devices that are there",
			    "Could not find %s device with ordinal %" PRIu64,
			    location->kind == GM_LOCATION_CUDA ? "cuda"
							       : "metal",
			    location->ordinal);
}

/* Add @n layers; the arrays have room. */
static void take(struct gm_mapper *m, const struct gm_location *location,
		 uint64_t n)
{
	struct gm_mapper_run *last = m->n_runs ? &m->runs[m->n_runs - 1] : NULL;
	uint64_t first = last ? last->first + last->n : 0;

	if (n == 0)
		return;
	if (last && gm_location_equal(&last->location, location))
		last->n += n;
	else
		m->runs[m->n_runs++] =
			(struct gm_mapper_run){ *location, first, n };
}

static int compare_runs(const void *a, const void *b)
{
	const struct gm_mapper_run *x = a, *y = b;

	if (x->location.kind != y->location.kind)
		return x->location.kind < y->location.kind ? -1 : 1;
	if (x->location.ordinal != y->location.ordinal)
		return x->location.ordinal < y->location.ordinal ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int by_first(const void *a, const void *b)
{
	const struct gm_mapper_run *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* List each location once, by its first run. */
static int find_unique(struct gm_mapper *m, struct gm_plan_error *err)
{
	struct gm_mapper_run *runs = calloc(m->n_runs + 1, sizeof(*runs));
	size_t n = 0;

	m->unique = calloc(m->n_runs + 1, sizeof(*m->unique));
	if (!runs || !m->unique) {
		free(runs);
		return gm_error_no_memory(err);
	}
	for (size_t i = 0; i < m->n_runs; i++)
		runs[i] = m->runs[i];
	qsort(runs, m->n_runs, sizeof(*runs), compare_runs);
	for (size_t i = 0; i < m->n_runs; i++)
		if (n == 0 || !gm_location_equal(&runs[n - 1].location,
						 &runs[i].location))
			runs[n++] = runs[i];
	qsort(runs, n, sizeof(*runs), by_first);
	for (size_t i = 0; i < n; i++)
		m->unique[i] = runs[i].location;
	m->n_unique = n;
	free(runs);
	return 0;
}

static int reserve(struct gm_mapper *m, size_t n, struct gm_plan_error *err)
{
	m->runs = calloc(n, sizeof(*m->runs));
	return m->runs ? 0 : gm_error_no_memory(err);
}

static int place_on_base(const struct gm_mapper_request *q,
			 enum gm_mapper_kind kind, struct gm_mapper *m,
			 struct gm_plan_error *err)
{
	int r = reserve(m, 1, err);

	m->kind = kind;
	if (r == 0)
		take(m, &q->base, q->n_layers);
	return r;
}

static int place_by_topology(const struct gm_mapper_request *q,
			     struct gm_mapper *m, struct gm_plan_error *err)
{
	const struct gm_topology *t = q->topology;
	uint64_t end = gm_topology_end(t), layer = 0;
	int r;

	if (end > q->n_layers)
		return gm_error_set(err, -EINVAL,
				    "end the topology's ranges with the model",
				    "A topology range ends at layer %" PRIu64
				    " but the model has %" PRIu64,
				    end, q->n_layers);
	r = reserve(m, 2 * t->n_ranges + 1, err);
	for (size_t i = 0; i < t->n_ranges && r == 0; i++) {
		const struct gm_topology_range *range = &t->ranges[i];
		const struct gm_location *location =
			range->entry.has_device ? &range->entry.device
						: &q->base;

		r = check_device(q, location, err);
		take(m, &q->base, range->start - layer);
		take(m, location, range->end - range->start);
		layer = range->end;
	}
	if (r == 0)
		take(m, &q->base, q->n_layers - layer);
	return r;
}

static int place_by_map(const struct gm_mapper_request *q, struct gm_mapper *m,
			struct gm_plan_error *err)
{
	uint64_t host = 0;
	int r = gm_spec_share(q->map, q->n_layers, q->host_layers, &host, err);

	if (r == 0)
		r = reserve(m, q->map->n_entries + 1, err);
	for (size_t i = 0; i < q->map->n_entries && r == 0; i++) {
		const struct gm_spec_entry *entry = &q->map->entries[i];
		struct gm_location location = { q->base.kind, entry->row };

		if (q->base.kind == GM_LOCATION_CPU)
			location = cpu;
		r = check_device(q, &location, err);
		take(m, &location, entry->layers);
	}
	if (r == 0)
		take(m, &cpu, host);
	return r;
}

static int place(const struct gm_mapper_request *q, struct gm_mapper *m,
		 struct gm_plan_error *err)
{
	if (q->is_nccl)
		return place_on_base(q, GM_MAPPER_NCCL, m, err);
	if (q->map && q->map->is_auto)
		return gm_error_set(
			err, -EINVAL, "plan it first, or give a spec",
			".into_mapper does not work on Auto device map, "
			"convert it to a Map with "
			"DeviceMappedModelLoader::get_device_layers");
	if (q->topology && gm_topology_places(q->topology))
		return place_by_topology(q, m, err);
	if (!q->map)
		return place_on_base(q, GM_MAPPER_DUMMY, m, err);
	return place_by_map(q, m, err);
}

/* Check what a topology quantises the layers of each run to. */
static int check_quantised(const struct gm_mapper_request *q,
			   const struct gm_mapper *m, struct gm_plan_error *err)
{
	for (size_t i = 0; q->topology && i < m->n_runs; i++) {
		const struct gm_mapper_run *run = &m->runs[i];

		if (run->location.kind == GM_LOCATION_CUDA &&
		    !gm_topology_suits_cuda(q->topology, run->first, run->n))
			return gm_isq_not_on_cuda(err);
	}
	return 0;
}

int gm_mapper_make(const struct gm_mapper_request *q,
		   struct gm_mapper *ret_mapper, struct gm_plan_error *ret_err)
{
	struct gm_mapper m = { .kind = GM_MAPPER_LAYER,
			       .base = q->base,
			       .n_layers = q->n_layers };
	int r;

	if (q->n_layers == 0)
		return gm_error_no_layers(ret_err);
	r = place(q, &m, ret_err);
	if (r == 0)
		r = check_quantised(q, &m, ret_err);
	if (r == 0)
		r = find_unique(&m, ret_err);
	if (r)
		gm_mapper_free(&m);
	else
		*ret_mapper = m;
	return r;
}

void gm_mapper_free(struct gm_mapper *m)
{
	if (!m)
		return;
	free(m->runs);
	free(m->unique);
	*m = (struct gm_mapper){ 0 };
}

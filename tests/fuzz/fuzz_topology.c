/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Topologies, and the maps they make.
 *
 *	byte 0	layers of the model
 *	then	the YAML
 */

#include "tests/fuzz/fuzz_plan.h"

#include <string.h>

#include "agent/plan/mapper.h"
#include "tests/support/topology_entries.h"

static void check_ranges(const struct gm_topology *t)
{
	uint64_t at = 0;

	for (size_t i = 0; i < t->n_ranges; i++) {
		const struct gm_topology_range *range = &t->ranges[i];

		MUST(range->start >= at && range->end > range->start);
		MUST(topology_layer(t, range->start) == &range->entry);
		MUST(topology_layer(t, range->end - 1) == &range->entry);
		if (range->start > at)
			MUST(!topology_layer(t, range->start - 1));
		at = range->end;
	}
	MUST(gm_topology_end(t) == at && !topology_layer(t, at));
}

static void map(const struct gm_topology *t, uint64_t n_layers)
{
	static const struct gm_location gpus[] = { { GM_LOCATION_CUDA, 0 },
						   { GM_LOCATION_CUDA, 1 } };
	struct gm_mapper_request q = { .host_layers = GM_LAYERS_REST,
				       .topology = t,
				       .n_layers = n_layers,
				       .base = gpus[0],
				       .devices = gpus,
				       .n_devices = 2 };
	struct gm_plan_error err = { 0 };
	struct gm_mapper m = { 0 };
	uint64_t at = 0;
	int r = gm_mapper_make(&q, &m, &err);

	if (r) {
		check_error(r, &err);
		return;
	}
	for (size_t i = 0; i < m.n_runs; i++) {
		MUST(m.runs[i].first == at && m.runs[i].n > 0);
		at += m.runs[i].n;
	}
	MUST(at == n_layers && m.n_unique > 0);
	gm_mapper_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_topology t = { 0 };
	int r;

	if (size < 1)
		return 0;
	r = gm_topology_parse((const char *)data + 1, size - 1, &t, &err);
	if (r) {
		check_error(r, &err);
		return 0;
	}
	check_ranges(&t);
	map(&t, data[0]);
	gm_topology_free(&t);
	return 0;
}

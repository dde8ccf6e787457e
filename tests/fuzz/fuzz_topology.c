/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Topologies, and the maps they make.
 *
 *	byte 0	layers of the model
 *	then	the YAML
 */

#include "agent/files/topology_file.h"
#include "tests/fuzz/fuzz_plan.h"

#include <string.h>

#include "lib/model/plan/place.h"
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
	static const struct gm_plan_device devices[] = {
		{ .row = 0, .at = { GM_LOCATION_CUDA, 0 } },
		{ .row = 1, .at = { GM_LOCATION_CUDA, 1 } },
		{ .row = 2, .is_host = true },
	};
	const struct gm_place_request q = { .devices = devices,
					    .n_devices = 3,
					    .topology = t,
					    .host_layers = GM_LAYERS_REST,
					    .n_layers = n_layers };
	struct gm_plan_error err = { 0 };
	struct gm_place p = { 0 };
	uint64_t at = 0;
	int r = gm_place_make(&q, &p, &err);

	if (r) {
		check_error(r, &err);
		return;
	}
	for (size_t i = 0; i < p.n_runs; i++) {
		MUST(p.runs[i].first == at && p.runs[i].n > 0);
		MUST(i == 0 || p.runs[i].device != p.runs[i - 1].device);
		at += p.runs[i].n;
	}
	MUST(at == n_layers);
	gm_place_free(&p);
}

/* A text of ranges says the same. */
static void check_text(const struct gm_topology *t)
{
	char *text = gm_topology_print(t);
	struct gm_topology read;

	MUST(text && gm_topology_parse(text, &read, NULL) == 0);
	MUST(read.n_ranges == t->n_ranges &&
	     read.pattern_has_isq == t->pattern_has_isq &&
	     read.pattern_not_cuda == t->pattern_not_cuda);
	for (size_t i = 0; i < t->n_ranges; i++) {
		const struct gm_topology_entry *a = &t->ranges[i].entry;
		const struct gm_topology_entry *b = &read.ranges[i].entry;

		MUST(read.ranges[i].start == t->ranges[i].start &&
		     read.ranges[i].end == t->ranges[i].end &&
		     a->has_isq == b->has_isq && a->isq == b->isq &&
		     a->has_device == b->has_device &&
		     gm_location_equal(&a->device, &b->device));
	}
	gm_topology_free(&read);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_topology t = { 0 };
	int r;

	if (size < 1)
		return 0;
	r = gm_topology_file_parse((const char *)data + 1, size - 1, &t, &err);
	if (r) {
		check_error(r, &err);
		return 0;
	}
	check_ranges(&t);
	check_text(&t);
	map(&t, data[0]);
	gm_topology_free(&t);
	return 0;
}

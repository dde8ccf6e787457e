/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Specs and where they put layers.
 *
 *	byte 0	layers of the model, 255 for unknown
 *	byte 1	layers for the host, 255 for the rest
 *	byte 2	base row, 255 for the first
 *	byte 3	which of rows 0 to 7 there are
 *	byte 4	which of those are hosts
 *	then	the spec
 */

#include "tests/fuzz/fuzz_plan.h"

#include <stdbool.h>
#include <string.h>

#include "lib/model/plan/place.h"

#define HEAD 5

/* A printed specification reads back as the same. */
static void check_spec(const struct gm_spec *spec)
{
	struct gm_spec again;
	char *text;

	MUST(!spec->is_auto && spec->n_entries > 0);
	MUST(gm_spec_print(spec, &text) == 0);
	MUST(gm_spec_parse(text, &again, NULL) == 0);
	MUST(again.n_entries == spec->n_entries);
	MUST(memcmp(again.entries, spec->entries,
		    spec->n_entries * sizeof(*spec->entries)) == 0);
	gm_spec_free(&again);
	free(text);
}

/* The row of each layer, of which the spec's come first. */
static void check_rows(const struct gm_spec *spec,
		       const struct gm_place_request *q,
		       const struct gm_place *p)
{
	uint32_t *rows = gm_place_rows(p), layer = 0;
	bool has_base = false;

	MUST(rows && p->n_layers > 0);
	MUST(q->n_layers == GM_LAYERS_UNKNOWN || p->n_layers == q->n_layers);
	for (size_t i = 0; i < spec->n_entries; i++)
		for (uint64_t n = spec->entries[i].layers; n > 0; n--)
			MUST(rows[layer++] == spec->entries[i].row);
	MUST(layer == p->n_layers || p->runs[p->n_runs - 1].device->is_host);
	for (; layer < p->n_layers; layer++)
		MUST(rows[layer] == p->runs[p->n_runs - 1].device->row);
	for (uint32_t i = 0; i < q->n_devices; i++)
		has_base |= q->devices[i].row == p->base_row;
	MUST(has_base);
	free(rows);
}

static void place(const struct gm_spec *spec, const uint8_t *head)
{
	struct gm_plan_device devices[8] = { { 0 } };
	struct gm_place_request q = {
		.devices = devices,
		.map = spec,
		.n_layers = head[0] == 255 ? GM_LAYERS_UNKNOWN : head[0],
		.host_layers = head[1] == 255 ? GM_LAYERS_REST : head[1],
		.base_row = head[2] == 255 ? GM_ROW_FIRST : head[2],
	};
	struct gm_plan_error err = { 0 };
	struct gm_place p;
	int r;

	for (uint32_t i = 0; i < 8; i++)
		if (head[3] >> i & 1)
			devices[q.n_devices++] = (struct gm_plan_device){
				.row = i, .is_host = head[4] >> i & 1
			};
	r = gm_place_make(&q, &p, &err);
	if (r) {
		check_error(r, &err);
		return;
	}
	check_rows(spec, &q, &p);
	gm_place_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_spec spec;
	char *text;
	int r;

	if (size < HEAD)
		return 0;
	text = strndup((const char *)data + HEAD, size - HEAD);
	MUST(text);
	r = gm_spec_parse(text, &spec, &err);
	if (r) {
		check_error(r, &err);
	} else {
		check_spec(&spec);
		place(&spec, data);
		gm_spec_free(&spec);
	}
	free(text);
	return 0;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* place: specs and topologies against devices and models, and what does not go
 * together. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files/topology_file.h"
#include "lib/model/plan/place.h"
#include "tests/support/tap.h"
#include "tests/support/topology_entries.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define REST     GM_LAYERS_REST
#define UNKNOWN  GM_LAYERS_UNKNOWN
#define FIRST    GM_ROW_FIRST

/* Three devices with a hole in the numbers, then two hosts. */
static const struct gm_plan_device node[] = {
	{ .row = 0 },
	{ .row = 1 },
	{ .row = 4 },
	{ .row = 5, .is_host = true },
	{ .row = 6, .is_host = true },
};

/* A base, three cards and the host. */
static const struct gm_plan_device gpus[] = {
	{ .row = 0, .at = { GM_LOCATION_CUDA, 0 } },
	{ .row = 1, .at = { GM_LOCATION_CUDA, 1 } },
	{ .row = 2, .at = { GM_LOCATION_CUDA, 2 } },
	{ .row = 3, .is_host = true },
};

/* The error; or the runs: "0:2;1:3@0" on rows, or "cuda[0] 2, cpu 3". */
static const char *show(const struct gm_place_request *q,
			struct gm_plan_error *err)
{
	static char text[512];
	char name[LOCATION_TEXT], *at = text;
	struct gm_place p = { .n_layers = 77 };
	uint64_t end = 0;

	*err = (struct gm_plan_error){ 0 };
	text[0] = '\0';
	if (gm_place_make(q, &p, err)) {
		EQ(p.n_layers, 77);
		OK(err->remedy[0] != '\0');
		return err->text;
	}
	STR(err->text, "");
	for (size_t i = 0; i < p.n_runs; i++) {
		const struct gm_place_run *run = &p.runs[i];

		OK(run->first == end);
		end += run->n;
		if (q->by_ordinal)
			at += sprintf(at, "%s%s %" PRIu64, i ? ", " : "",
				      topology_location(&run->device->at, name),
				      run->n);
		else
			at += sprintf(at, "%s%" PRIu32 ":%" PRIu64,
				      i ? ";" : "", run->device->row, run->n);
	}
	OK(end == p.n_layers);
	if (!q->by_ordinal)
		sprintf(at, "@%" PRIu32, p.base_row);
	gm_place_free(&p);
	return text;
}

/* The request with a spec and a topology, NULL for none; "" is the empty
 * list. */
static const char *show_texts(struct gm_place_request q, const char *spec_text,
			      const char *topology_text,
			      struct gm_plan_error *err)
{
	struct gm_topology topology = { 0 };
	struct gm_spec spec = { 0 };
	const char *shown;

	if (spec_text && *spec_text)
		EQ(gm_spec_parse(spec_text, &spec, NULL), 0);
	if (topology_text)
		EQ(gm_topology_file_parse(topology_text, strlen(topology_text),
					  &topology, NULL),
		   0);
	q.map = spec_text ? &spec : NULL;
	q.topology = topology_text ? &topology : NULL;
	shown = show(&q, err);
	gm_spec_free(&spec);
	gm_topology_free(&topology);
	return shown;
}

#define ROWS      ": the rows are 0-1, 4-6"
#define TOO_MANY  "More than the 65536 layers that a map may have"
#define PLACES_32 "The map places 32 layers but the model has 31"
#define NO_NUMBER                                                           \
	"The map places no layers and the model's number of layers is not " \
	"known"

static void specs_name_rows(void)
{
	static const struct {
		const char *spec;
		uint64_t n_layers, host_layers;
		uint32_t base;
		int code;
		const char *want;
	} table[] = {
		{ "0:2;1:3", 5, REST, FIRST, 0, "0:2;1:3@0" },
		{ "4:1;0:2", 3, REST, FIRST, 0, "4:1;0:2@4" },
		/* The size of the model may be left to the spec. */
		{ "0:2;1:3", UNKNOWN, REST, FIRST, 0, "0:2;1:3@0" },
		{ "0:2", UNKNOWN, 2, FIRST, 0, "0:2;5:2@0" },
		/* A single entry means the row it names. */
		{ "1:3", 3, REST, FIRST, 0, "1:3@1" },
		{ "3", 3, REST, FIRST, 0, "0:3@0" },
		/* The rest goes to the first host row, and comes last. */
		{ "1:2", 5, REST, FIRST, 0, "1:2;5:3@1" },
		{ "1:2", 5, 3, FIRST, 0, "1:2;5:3@1" },
		{ "1:2", 5, REST, 6, 0, "1:2;5:3@6" },
		{ "", 3, REST, FIRST, 0, "5:3@5" },
		/* A host row is a row like any other. */
		{ "6:1;0:1", 2, REST, FIRST, 0, "6:1;0:1@6" },
		{ "5:1;0:1", 4, REST, FIRST, 0, "5:1;0:1;5:2@5" },
		/* No layers, no use. */
		{ "0:0;1:2", 2, REST, FIRST, 0, "1:2@1" },
		{ "1:2", 2, REST, 4, 0, "1:2@4" },
		{ "0:65535", 65536, REST, FIRST, 0, "0:65535;5:1@0" },
		{ "0:16;1:16", 31, REST, FIRST, -EINVAL, PLACES_32 },
		{ "32", 31, REST, FIRST, -EINVAL, PLACES_32 },
		{ "0:1", 0, REST, FIRST, -EINVAL, "The model has no layers" },
		{ "0:16", 32, 15, FIRST, -EINVAL,
		  "Expected the total number of GPU (16) and host layers (15) "
		  "to sum to the number of model hidden layers (32)" },
		{ "2:1;9:1", 2, REST, FIRST, -ENODEV,
		  "Could not find row 2" ROWS },
		{ "0:1;9:0", 1, REST, FIRST, -ENODEV,
		  "Could not find row 9" ROWS },
		{ "4294967296:1", 1, REST, FIRST, -ENODEV,
		  "Could not find row 4294967296" ROWS },
		{ "0:1", 1, REST, 3, -ENODEV, "Could not find row 3" ROWS },
		{ "0:1", 1, REST, 7, -ENODEV, "Row 7 is drained or cordoned" },
		{ "0:0", UNKNOWN, REST, FIRST, -EINVAL, NO_NUMBER },
		{ "0:18446744073709551615;1:1", UNKNOWN, REST, FIRST, -EINVAL,
		  "The map's layers sum to 2^64 or more" },
		{ "0:65537", UNKNOWN, REST, FIRST, -E2BIG, TOO_MANY },
		{ "0:65536", UNKNOWN, 1, FIRST, -E2BIG, TOO_MANY },
		{ "0:1", 65537, REST, FIRST, -E2BIG, TOO_MANY },
	};
	static const uint32_t drained[] = { 7 };

	for (size_t i = 0; i < COUNT(table); i++) {
		const struct gm_place_request q = {
			.devices = node,
			.n_devices = COUNT(node),
			.n_layers = table[i].n_layers,
			.host_layers = table[i].host_layers,
			.base_row = table[i].base,
			.drained = drained,
			.n_drained = 1,
		};
		struct gm_plan_error err;

		STR(show_texts(q, table[i].spec, NULL, &err), table[i].want);
		EQ(err.code, table[i].code);
	}
}

static void a_node_may_lack_rows(void)
{
	struct gm_plan_device scattered[200] = { { 0 } };
	struct gm_place_request q = { .devices = node,
				      .n_devices = 2,
				      .n_layers = 32,
				      .host_layers = REST,
				      .base_row = FIRST };
	const struct gm_spec everything = { .is_auto = true };
	struct gm_plan_error err;

	STR(show_texts(q, "0:10;1:10", NULL, &err),
	    "12 of 32 layers are left over, and there is no host row to take "
	    "them");
	STR(show_texts(q, "0:16;1:16", NULL, &err), "0:16;1:16@0");
	q.n_devices = 0;
	STR(show_texts(q, "0:32", NULL, &err),
	    "Could not find row 0: there are no rows");
	/* 200 scattered rows fit the message. */
	for (uint32_t i = 0; i < COUNT(scattered); i++)
		scattered[i].row = 2 * i;
	q.devices = scattered;
	q.n_devices = COUNT(scattered);
	show_texts(q, "1:32", NULL, &err);
	OK(strstr(err.text, "Could not find row 1: the rows are 0, 2, 4"));
	OK(strstr(err.text, "..."));
	q.map = &everything;
	STR(show(&q, &err), "An automatic map has no rows yet");
	q.by_ordinal = true;
	STR(show(&q, &err),
	    ".into_mapper does not work on Auto device map, convert it to a "
	    "Map with DeviceMappedModelLoader::get_device_layers");
}

static void layers_have_rows(void)
{
	const struct gm_spec_entry entries[] = { { 4, 2 }, { 0, 1 } };
	const struct gm_spec spec = { .n_entries = 2,
				      .entries = (void *)entries };
	const struct gm_place_request q = { .devices = node,
					    .n_devices = COUNT(node),
					    .map = &spec,
					    .n_layers = 4,
					    .host_layers = REST,
					    .base_row = FIRST };
	static const uint32_t want[] = { 4, 4, 0, 5 };
	struct gm_place p = { 0 };
	uint32_t *rows;

	EQ(gm_place_make(&q, &p, NULL), 0);
	rows = gm_place_rows(&p);
	OK(rows && memcmp(rows, want, sizeof(want)) == 0);
	free(rows);
	gm_place_free(&p);
}

#define NOT_ON_CUDA                                                        \
	"ISQ type on CUDA must be one of `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, " \
	"`Q8_0`, `Q2K`, `Q3K`, `Q4K`, `Q5K`, `Q6K`, `HQQ8`, `HQQ4`, "      \
	"`FP8`, `AFQ8`, `AFQ6`, `AFQ4`, `AFQ3`, `AFQ2`, `F8Q8`, `MXFP4`"
#define PLACES_33 "The map places 33 layers but the model has 32"
#define CUDA      0, false /* the base is the first card */
#define CPU       3, false
#define NCCL      0, true

static void specs_and_topologies_name_devices(void)
{
	static const struct {
		const char *spec, *topology;
		uint64_t n_layers, host_layers;
		uint32_t base;
		bool is_nccl;
		const char *want;
	} table[] = {
		/* Maps place in order, and the host comes last. */
		{ "0:16;1:16", NULL, 32, REST, CUDA, "cuda[0] 16, cuda[1] 16" },
		{ "1:10;0:10", NULL, 32, REST, CUDA,
		  "cuda[1] 10, cuda[0] 10, cpu 12" },
		{ "1:32", NULL, 32, REST, CUDA, "cuda[1] 32" },
		{ "32", NULL, 32, REST, CUDA, "cuda[0] 32" },
		{ "0:0;2:32", NULL, 32, REST, CUDA, "cuda[2] 32" },
		{ "0:20", NULL, 32, 12, CUDA, "cuda[0] 20, cpu 12" },
		{ "7:10;8:10", NULL, 32, 12, CPU, "cpu 32" },
		{ "0:18446744073709551614;1:1", NULL, UINT64_MAX, REST, CUDA,
		  "cuda[0] 18446744073709551614, cuda[1] 1" },
		{ "", NULL, 32, REST, CUDA, "cpu 32" },
		{ NULL, NULL, 32, REST, CUDA, "cuda[0] 32" },
		/* Numbers that do not fit are refused. */
		{ "0:16;1:17", NULL, 32, REST, CUDA, PLACES_33 },
		{ "33", NULL, 32, REST, CUDA, PLACES_33 },
		{ "0:18446744073709551615;1:1", NULL, 32, REST, CUDA,
		  "The map's layers sum to 2^64 or more" },
		{ "0:16;5:0", NULL, 32, REST, CUDA,
		  "Could not find cuda device with ordinal 5" },
		{ "0:16;5:1", NULL, 32, 3, CUDA,
		  "Expected the total number of GPU (17) and host layers (3) "
		  "to sum to the number of model hidden layers (32)" },
		{ "0", NULL, 0, REST, CUDA, "The model has no layers" },
		{ NULL, NULL, 0, REST, CUDA, "The model has no layers" },
		/* A topology comes first. */
		{ "2:32", "4-8: {device: 'cuda[1]'}\n8-10: {isq: 4}", 32, REST,
		  CUDA, "cuda[0] 4, cuda[1] 4, cuda[0] 24" },
		{ "2:32", "0-32: {device: cpu}", 32, REST, CUDA, "cpu 32" },
		{ "2:32", "0-33: {device: cpu}", 32, REST, CUDA,
		  "A topology range ends at layer 33 but the model has 32" },
		{ "2:32", "0-4: {device: 'cuda[3]'}", 32, REST, CUDA,
		  "Could not find cuda device with ordinal 3" },
		{ "2:32", "0-4: {device: 'metal[0]'}", 32, REST, CUDA,
		  "Could not find metal device with ordinal 0" },
		/* The file names no devices: the map stays. */
		{ "2:32", "0-32: {isq: Q4K}", 32, REST, CUDA, "cuda[2] 32" },
		{ "2:32", "/x/: {device: cpu}", 32, REST, CUDA, "cuda[2] 32" },
		{ NULL, "0-32: {isq: Q4K}", 32, REST, CUDA, "cuda[0] 32" },
		/* No CUDA device gets a type that it lacks. */
		{ NULL, "0-4: {isq: q8k}\n9: {device: cpu}", 32, REST, CUDA,
		  NOT_ON_CUDA },
		{ NULL, "0-4: {isq: Q8_1, device: cpu}\n9: {isq: 8}", 32, REST,
		  CUDA, "cpu 4, cuda[0] 28" },
		/* A later range takes the layers with its own type, or none. */
		{ NULL, "0-4: {isq: Q8_1}\n0-5: {device: 'cuda[1]'}", 32, REST,
		  CUDA, "cuda[1] 5, cuda[0] 27" },
		{ NULL, "/x/: {isq: Q8K}", 32, REST, CUDA, NOT_ON_CUDA },
		{ NULL, "/x/: {isq: Q8K, device: cpu}", 32, REST, CUDA,
		  "cuda[0] 32" },
		{ "0:16", "15: {isq: Q8_1}", 32, REST, CUDA, NOT_ON_CUDA },
		{ "0:16", "16-32: {isq: Q8_1}", 32, REST, CUDA,
		  "cuda[0] 16, cpu 16" },
		{ NULL, "0-32: {isq: Q8_1}\n/x/: {isq: Q8K}", 32, REST, CPU,
		  "cpu 32" },
		{ NULL, "/x/: {isq: Q8K}\n9: {device: 'cuda[0]'}", 32, REST,
		  CPU, NOT_ON_CUDA },
		/* Every rank has all layers with nccl. */
		{ NULL, "31: {isq: Q8_1}", 32, REST, NCCL, NOT_ON_CUDA },
		{ "1:2;2:2", NULL, 4, REST, NCCL, "cuda[0] 4" },
		{ "1:2;2:2", NULL, 4, REST, CUDA, "cuda[1] 2, cuda[2] 2" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		const struct gm_place_request q = {
			.devices = gpus,
			.n_devices = COUNT(gpus),
			.base_row = table[i].base,
			.by_ordinal = true,
			.is_nccl = table[i].is_nccl,
			.n_layers = table[i].n_layers,
			.host_layers = table[i].host_layers,
		};
		struct gm_plan_error err;

		STR(show_texts(q, table[i].spec, table[i].topology, &err),
		    table[i].want);
	}
}

TAP_CASE()
{
	specs_name_rows();
	a_node_may_lack_rows();
	layers_have_rows();
	specs_and_topologies_name_devices();
	return tap_done();
}

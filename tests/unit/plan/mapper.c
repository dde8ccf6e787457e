/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mapper: the rules in their order, and the table of operations. */

#include <errno.h>
#include <string.h>

#include "agent/plan/mapper.h"
#include "tests/support/tap.h"

static const struct gm_location gpus[] = { { GM_LOCATION_CUDA, 0 },
					   { GM_LOCATION_CUDA, 1 },
					   { GM_LOCATION_CUDA, 2 } };

static struct gm_mapper_request on_gpus(uint64_t n_layers)
{
	return (struct gm_mapper_request){
		.host_layers = GM_LAYERS_REST,
		.n_layers = n_layers,
		.base = gpus[0],
		.devices = gpus,
		.n_devices = 3,
	};
}

/* The runs of a mapper, or the text of the error. */
static const char *show(const struct gm_mapper_request *q)
{
	static struct gm_plan_error err;
	static char text[512];
	char location[GM_LOCATION_TEXT], *at = text;
	struct gm_mapper m = { 0 };

	text[0] = '\0';
	if (gm_mapper_make(q, &m, &err))
		return err.text;
	for (size_t i = 0; i < m.n_runs; i++)
		at += sprintf(at, "%s%s %" PRIu64, i ? ", " : "",
			      gm_location_print(&m.runs[i].location, location),
			      m.runs[i].n);
	gm_mapper_free(&m);
	return text;
}

static const char *with_spec(struct gm_mapper_request q, const char *text)
{
	struct gm_spec spec = { 0 };
	const char *shown;

	EQ(gm_spec_parse(text, &spec, NULL), 0);
	q.map = &spec;
	shown = show(&q);
	gm_spec_free(&spec);
	return shown;
}

static const char *with_topology(struct gm_mapper_request q, const char *text)
{
	struct gm_topology t = { 0 };
	const char *shown;

	EQ(gm_topology_parse(text, strlen(text), &t, NULL), 0);
	q.topology = &t;
	shown = show(&q);
	gm_topology_free(&t);
	return shown;
}

static void maps_by_hand_place_in_order_and_the_host_last(void)
{
	struct gm_mapper_request q = on_gpus(32);

	STR(with_spec(q, "0:16;1:16"), "cuda[0] 16, cuda[1] 16");
	STR(with_spec(q, "1:10;0:10"), "cuda[1] 10, cuda[0] 10, cpu 12");
	STR(with_spec(q, "1:32"), "cuda[1] 32"); /* not the base */
	STR(with_spec(q, "32"), "cuda[0] 32");
	STR(with_spec(q, "0:0;2:32"), "cuda[2] 32");
	q.host_layers = 12;
	STR(with_spec(q, "0:20"), "cuda[0] 20, cpu 12");
	q.base = (struct gm_location){ GM_LOCATION_CPU, 0 };
	STR(with_spec(q, "7:10;8:10"), "cpu 32");
	q = on_gpus(UINT64_MAX);
	STR(with_spec(q, "0:18446744073709551614;1:1"),
	    "cuda[0] 18446744073709551614, cuda[1] 1");
}

static void numbers_that_do_not_fit_are_refused(void)
{
	struct gm_mapper_request q = on_gpus(32);
	struct gm_spec everything = { .is_auto = true };

	STR(with_spec(q, "0:16;1:17"),
	    "The map places 33 layers but the model has 32");
	STR(with_spec(q, "33"),
	    "The map places 33 layers but the model has 32");
	STR(with_spec(q, "0:18446744073709551615;1:1"),
	    "The map's layers sum to 2^64 or more");
	STR(with_spec(q, "0:16;5:0"),
	    "Could not find cuda device with ordinal 5");
	q.host_layers = 3;
	STR(with_spec(q, "0:16;5:1"),
	    "Expected the total number of GPU (17) and host layers (3) to sum "
	    "to the number of model hidden layers (32)");
	q = on_gpus(0);
	STR(with_spec(q, "0"), "The model has no layers");
	STR(show(&q), "The model has no layers");
	q = on_gpus(32);
	q.map = &everything;
	STR(show(&q), ".into_mapper does not work on Auto device map, convert "
		      "it to a Map with "
		      "DeviceMappedModelLoader::get_device_layers");
}

static void an_empty_map_is_all_on_the_host(void)
{
	struct gm_mapper_request q = on_gpus(32);
	struct gm_spec none = { 0 };

	q.map = &none;
	STR(show(&q), "cpu 32");
	q.map = NULL;
	STR(show(&q), "cuda[0] 32");
}

static void a_topology_comes_first(void)
{
	struct gm_mapper_request q = on_gpus(32);
	struct gm_spec spec = { 0 };

	EQ(gm_spec_parse("2:32", &spec, NULL), 0);
	q.map = &spec;
	STR(with_topology(q, "4-8: {device: 'cuda[1]'}\n8-10: {isq: 4}"),
	    "cuda[0] 4, cuda[1] 4, cuda[0] 24");
	STR(with_topology(q, "0-32: {device: cpu}"), "cpu 32");
	STR(with_topology(q, "0-33: {device: cpu}"),
	    "A topology range ends at layer 33 but the model has 32");
	STR(with_topology(q, "0-4: {device: 'cuda[3]'}"),
	    "Could not find cuda device with ordinal 3");
	STR(with_topology(q, "0-4: {device: 'metal[0]'}"),
	    "Could not find metal device with ordinal 0");
	/* The file names no devices: the map stays. */
	STR(with_topology(q, "0-32: {isq: Q4K}"), "cuda[2] 32");
	STR(with_topology(q, "/x/: {device: cpu}"), "cuda[2] 32");
	q.map = NULL;
	STR(with_topology(q, "0-32: {isq: Q4K}"), "cuda[0] 32");
	gm_spec_free(&spec);
}

#define NOT_ON_CUDA                                                        \
	"ISQ type on CUDA must be one of `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, " \
	"`Q8_0`, `Q2K`, `Q3K`, `Q4K`, `Q5K`, `Q6K`, `HQQ8`, `HQQ4`, "      \
	"`FP8`, `AFQ8`, `AFQ6`, `AFQ4`, `AFQ3`, `AFQ2`, `F8Q8`, `MXFP4`"

static void no_cuda_device_gets_a_type_that_it_lacks(void)
{
	struct gm_mapper_request q = on_gpus(32);
	struct gm_spec spec = { 0 };

	STR(with_topology(q, "0-4: {isq: q8k}\n9: {device: cpu}"), NOT_ON_CUDA);
	STR(with_topology(q, "0-4: {isq: Q8_1, device: cpu}\n9: {isq: 8}"),
	    "cpu 4, cuda[0] 28");
	/* A later range takes the layers with its own type, or none. */
	STR(with_topology(q, "0-4: {isq: Q8_1}\n0-5: {device: 'cuda[1]'}"),
	    "cuda[1] 5, cuda[0] 27");
	STR(with_topology(q, "/x/: {isq: Q8K}"), NOT_ON_CUDA);
	STR(with_topology(q, "/x/: {isq: Q8K, device: cpu}"), "cuda[0] 32");
	q.is_nccl = true;
	STR(with_topology(q, "31: {isq: Q8_1}"), NOT_ON_CUDA);
	q.is_nccl = false;
	EQ(gm_spec_parse("0:16", &spec, NULL), 0);
	q.map = &spec;
	STR(with_topology(q, "15: {isq: Q8_1}"), NOT_ON_CUDA);
	STR(with_topology(q, "16-32: {isq: Q8_1}"), "cuda[0] 16, cpu 16");
	gm_spec_free(&spec);
	q.map = NULL;
	q.base = (struct gm_location){ GM_LOCATION_CPU, 0 };
	STR(with_topology(q, "0-32: {isq: Q8_1}\n/x/: {isq: Q8K}"), "cpu 32");
	STR(with_topology(q, "/x/: {isq: Q8K}\n9: {device: 'cuda[0]'}"),
	    NOT_ON_CUDA);
}

static void unique_devices_are_in_the_order_of_use(void)
{
	struct gm_mapper_request q = on_gpus(10);
	struct gm_topology t = { 0 };
	struct gm_mapper m = { 0 };
	static const char text[] = "0: {device: cpu}\n1: {device: 'cuda[2]'}\n"
				   "2: {device: 'cuda[02]'}\n"
				   "3: {device: cpu}\n";

	EQ(gm_topology_parse(text, strlen(text), &t, NULL), 0);
	q.topology = &t;
	EQ(gm_mapper_make(&q, &m, NULL), 0);
	EQ(m.n_runs, 4);
	EQ(m.n_unique, 3);
	EQ(m.unique[0].kind, GM_LOCATION_CPU);
	EQ(m.unique[1].ordinal, 2);
	EQ(m.unique[2].ordinal, 0);
	gm_mapper_free(&m);
	gm_topology_free(&t);
}

static void every_rank_has_all_with_nccl(void)
{
	struct gm_mapper_request q = on_gpus(4);
	struct gm_spec spec = { 0 };
	struct gm_mapper m = { 0 };

	EQ(gm_spec_parse("1:2;2:2", &spec, NULL), 0);
	q.map = &spec;
	EQ(gm_mapper_make(&q, &m, NULL), 0);
	EQ(m.kind, GM_MAPPER_LAYER);
	EQ(m.n_unique, 2);
	gm_mapper_free(&m);
	for (int nccl = 0; nccl < 2; nccl++) {
		q.map = nccl ? &spec : NULL;
		q.is_nccl = nccl;
		EQ(gm_mapper_make(&q, &m, NULL), 0);
		EQ(m.kind, nccl ? GM_MAPPER_NCCL : GM_MAPPER_DUMMY);
		EQ(m.n_unique, 1);
		gm_mapper_free(&m);
	}
	gm_spec_free(&spec);
}

TAP_CASE()
{
	maps_by_hand_place_in_order_and_the_host_last();
	numbers_that_do_not_fit_are_refused();
	an_empty_map_is_all_on_the_host();
	a_topology_comes_first();
	no_cuda_device_gets_a_type_that_it_lacks();
	unique_devices_are_in_the_order_of_use();
	every_rank_has_all_with_nccl();
	return tap_done();
}

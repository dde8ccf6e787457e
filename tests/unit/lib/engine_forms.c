/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * engine_forms: the settings of each engine, word for word, what notes say, and
 * the reasons of refusals.
 */

#include <errno.h>

#include <gpumap/engine.h>

#include "tests/support/engine_table.h"
#include "tests/support/tap.h"

#define UUID(n) "0" #n "000000-0000-0000-0000-0000000000f0"

/* ---- settings ------------------------------------------------------------ */

/* "NAME=VALUE NAME=VALUE | ARGUMENT ARGUMENT | exact". */
static const char *text_of(const struct gpumap_engine_settings *s)
{
	static char text[4096];
	size_t n = 0;

	for (uint32_t i = 0; i < s->n_env; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ",
				      s->env[i]);
	for (uint32_t i = 0; i < s->n_argv; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s",
				      i > 0 ? " " : "| ", s->argv[i]);
	snprintf(text + n, sizeof(text) - n, "%s", s->exact ? " | exact" : "");
	OK(s->argv[s->n_argv] == NULL && s->env[s->n_env] == NULL &&
	   s->notes[s->n_notes] == NULL);
	return text;
}

#define TWO    "CUDA_VISIBLE_DEVICES=GPU-" UUID(1) ",GPU-" UUID(2) " " ORDER
#define TURNED "CUDA_VISIBLE_DEVICES=GPU-" UUID(2) ",GPU-" UUID(1) " " ORDER
#define ONE    "CUDA_VISIBLE_DEVICES=GPU-" UUID(2) " " ORDER
#define ORDER  "CUDA_DEVICE_ORDER=PCI_BUS_ID "
#define NONE   "CUDA_VISIBLE_DEVICES=-1 " ORDER
#define LAYER  "--split-mode layer --tensor-split "

/* On four cards, and a host that is row 4. */
static const struct golden {
	uint32_t engine, flags;
	const char *spec;
	const char *want;
	const char *note; /* in the first note; NULL: there is none */
} goldens[] = {
	{ GPUMAP_ENGINE_ENV, 0, "1:32", ONE " | exact", NULL },
	{ GPUMAP_ENGINE_ENV, 0, "4:32", NONE " | exact", NULL },
	{ GPUMAP_ENGINE_ENV, 0, "1:2;0:2", TURNED, "for the program" },
	{ GPUMAP_ENGINE_ENV, 0, "1:2;4:2", ONE, "for the program" },

	{ GPUMAP_ENGINE_LLAMA_CPP, 0, "0:16;1:16",
	  TWO "| --device CUDA0,CUDA1 --n-gpu-layers 33 " LAYER
	      "16,17 --fit off | exact",
	  "llama.cpp keeps the token embeddings on the CPU; the map has them "
	  "on row 0." },
	{ GPUMAP_ENGINE_LLAMA_CPP, 0, "1:32",
	  ONE "| --device CUDA0 --n-gpu-layers 33 " LAYER
	      "33 --fit off | exact",
	  "llama.cpp keeps the token embeddings on the CPU; the map has them "
	  "on row 1." },
	{ GPUMAP_ENGINE_LLAMA_CPP, 0, "4:10;1:20;0:2",
	  TURNED "| --device CUDA0,CUDA1 --n-gpu-layers 23 " LAYER
		 "20,3 --fit off | exact",
	  "embeddings on the CPU; the map has them on row 4." },
	{ GPUMAP_ENGINE_LLAMA_CPP, 0, "4:32",
	  NONE "| --device none --n-gpu-layers 0 --fit off | exact", NULL },
	{ GPUMAP_ENGINE_LLAMA_CPP, 0, "0:3;1:3;4:2",
	  TWO "| --device CUDA0,CUDA1 --n-gpu-layers 9 " LAYER
	      "3,6 --override-tensor ^blk\\.(6|7)\\.=CPU --fit off",
	  "embeddings on the CPU" },
	{ GPUMAP_ENGINE_LLAMA_CPP, 0, "0:1;1:2;0:1;4:1;1:1",
	  TWO "| --device CUDA0,CUDA1 --n-gpu-layers 7 " LAYER
	      "1,6 --override-tensor "
	      "^blk\\.(4)\\.=CPU,^blk\\.(3)\\.=CUDA0 --fit off",
	  "embeddings on the CPU" },
	{ GPUMAP_ENGINE_LLAMA_CPP, GPUMAP_ENGINE_BY_ENV, "0:1;1:1",
	  TWO "LLAMA_ARG_DEVICE=CUDA0,CUDA1 LLAMA_ARG_N_GPU_LAYERS=3 "
	      "LLAMA_ARG_SPLIT_MODE=layer LLAMA_ARG_TENSOR_SPLIT=1,2 "
	      "LLAMA_ARG_FIT=off  | exact",
	  "embeddings on the CPU" },
	{ GPUMAP_ENGINE_OLLAMA, 0, "0:2;1:1;4:1",
	  TWO "LLAMA_ARG_DEVICE=CUDA0,CUDA1 LLAMA_ARG_N_GPU_LAYERS=5 "
	      "LLAMA_ARG_SPLIT_MODE=layer LLAMA_ARG_TENSOR_SPLIT=2,3 "
	      "LLAMA_ARG_OVERRIDE_TENSOR=^blk\\.(3)\\.=CPU LLAMA_ARG_FIT=off "
	      "OLLAMA_SCHED_SPREAD=1 ",
	  "embeddings on the CPU" },

	{ GPUMAP_ENGINE_VLLM, 0, "0:40;1:41",
	  TWO "VLLM_PP_LAYER_PARTITION=40,41 | --tensor-parallel-size 1 "
	      "--pipeline-parallel-size 2 --distributed-executor-backend mp "
	      "| exact",
	  NULL },
	{ GPUMAP_ENGINE_VLLM, 0, "1:81",
	  ONE "| --tensor-parallel-size 1 --pipeline-parallel-size 1 | exact",
	  NULL },
	{ GPUMAP_ENGINE_SGLANG, 0, "1:40;0:41",
	  TURNED "SGLANG_PP_LAYER_PARTITION=40,41 | --tensor-parallel-size 1 "
		 "--pipeline-parallel-size 2 | exact",
	  NULL },

	{ GPUMAP_ENGINE_MISTRAL_RS, 0, "0:16;1:16",
	  TWO "MISTRALRS_NO_NCCL=1 | -n 0:16;1:16 | exact",
	  "head on row 0; the map has them on rows 0 and 1." },
	{ GPUMAP_ENGINE_MISTRAL_RS, 0, "1:16;4:16", ONE "| -n 0:16 | exact",
	  "head on row 1; the map has them on rows 1 and 4." },
	{ GPUMAP_ENGINE_MISTRAL_RS, 0, "4:32", NONE "| --cpu | exact", NULL },
	{ GPUMAP_ENGINE_MISTRAL_RS, 0, "4:2;1:2",
	  ONE "| -n 0:4 --topology topology.yaml | exact",
	  "in the file that --topology names" },
};

static void each_engine_gets_its_words(void)
{
	table_make(4, 1, false);
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		const struct golden *g = &goldens[i];
		struct gpumap_engine_settings *s;

		table_map(g->spec);
		if (!EQ(table_export(g->engine, g->flags, &s), 0)) {
			NOTE("%s: %s", g->spec, gpumap_refusal(NULL));
			continue;
		}
		STR(text_of(s), g->want);
		if (g->note == NULL)
			EQ(s->n_notes, 0);
		else if (!OK(s->n_notes > 0 &&
			     strstr(s->notes[0], g->note) != NULL))
			NOTE("%s: %s", g->spec,
			     s->n_notes > 0 ? s->notes[0] : "no note");
		gpumap_engine_free(s);
	}
	gpumap_engine_free(NULL);
}

/* A base row without layers: mistral.rs has ordinal 0 for it. */
static void a_base_row_may_hold_no_layer(void)
{
	struct gpumap_engine_settings *s;

	table_map("1:4");
	base_row = 0;
	EQ(table_export(GPUMAP_ENGINE_MISTRAL_RS, 0, &s), 0);
	STR(text_of(s), TWO "MISTRALRS_NO_NCCL=1 | -n 0:0;1:4 | exact");
	STR(s->file, "0-4:\n  device: cuda[1]\n");
	EQ(s->n_rows, 2);
	EQ(s->rows[0], 0);
	EQ(s->rows[1], 1);
	gpumap_engine_free(s);
	table_map("4:4");
	base_row = 1;
	EQ(table_export(GPUMAP_ENGINE_MISTRAL_RS, 0, &s), 0);
	STR(text_of(s), ONE "| -n 0:0 | exact");
	STR(s->file, "0-4:\n  device: cpu\n");
	gpumap_engine_free(s);
	EQ(table_export(GPUMAP_ENGINE_ENV, 0, &s), 0);
	STR(text_of(s), ONE);
	gpumap_engine_free(s);
}

static void a_host_among_several_is_told(void)
{
	struct gpumap_engine_settings *s;

	table_make(1, 2, false);
	table_map("2:1;0:1");
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), 0);
	EQ(s->exact, 0);
	STR(s->notes[0],
	    "Row 2 is the memory of NUMA node 1, and llama.cpp takes that of "
	    "any node: run it under numactl --cpunodebind=1 --membind=1.");
	gpumap_engine_free(s);
}

/* ---- devices ------------------------------------------------------------- */

static void instances_are_named(void)
{
	struct gpumap_engine_settings *s;

	/* Rows 2 and 3 are instances of one card. */
	table_make(4, 1, true);
	table_map("2:1;0:1");
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), 0);
	STR(rules_variable(s, "CUDA_VISIBLE_DEVICES"),
	    "MIG-" UUID(3) ",GPU-" UUID(1));
	gpumap_engine_free(s);
	table_map("3:1;2:1");
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), 0);
	STR(rules_variable(s, "CUDA_VISIBLE_DEVICES"),
	    "MIG-" UUID(4) ",MIG-" UUID(3));
	gpumap_engine_free(s);
	/* Before CUDA 12.8 a program sees one of them alone. */
	for (uint32_t row = 0; row < 4; row++)
		table[row].cuda_version = row < 3 ? 12020 : 0; /* not read */
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), -EOPNOTSUPP);
	STR(gpumap_refusal(NULL),
	    "layer 1 is on row 2, which a driver of CUDA 12.2 does not show "
	    "beside the map's other rows: publish the map without MIG "
	    "instances, or with one row, or install a newer driver");
	table_map("3:1");
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), 0);
	gpumap_engine_free(s);
}

/* As a node file has them: no UUIDs. */
static void devices_without_uuids_are_counted(void)
{
	struct gpumap_engine_settings *s;

	table_make(4, 1, false);
	table[0].flags |= GPUMAP_DEVICE_MIG; /* split: no ordinal counts it */
	for (uint32_t row = 0; row < 4; row++)
		memset(table[row].uuid, 0, sizeof(table[row].uuid));
	table_map("3:1;1:1");
	EQ(table_export(GPUMAP_ENGINE_VLLM, 0, &s), 0);
	STR(rules_variable(s, "CUDA_VISIBLE_DEVICES"), "2,0");
	STR(s->notes[0], "The table has no UUIDs: CUDA_VISIBLE_DEVICES counts "
			 "its CUDA devices, which have to be those of the "
			 "machine in the order of their PCI addresses.");
	gpumap_engine_free(s);

	/* All are counted where one has none, but a lost one is not there. */
	table[1].uuid[0] = 1;
	table[2].state = GPUMAP_DEVICE_LOST;
	EQ(table_export(GPUMAP_ENGINE_VLLM, 0, &s), 0);
	STR(rules_variable(s, "CUDA_VISIBLE_DEVICES"), "1,0");
	gpumap_engine_free(s);
}

/* ---- refusals ------------------------------------------------------------ */

#define PIECE                                                                \
	": a rank has one range of layers; publish the map with each row's " \
	"layers in one piece"

static const struct refusal {
	uint32_t engine;
	const char *spec;
	const char *why;
} refusals[] = {
	{ GPUMAP_ENGINE_VLLM, "0:2;1:2;0:1",
	  "layer 4 is on row 0, which has layer 1 but not layer 3" PIECE },
	{ GPUMAP_ENGINE_SGLANG, "0:2;4:1",
	  "layer 2 is on row 4, a host row, and SGLang has layers on GPUs "
	  "only: publish the map without it" },
	{ GPUMAP_ENGINE_VLLM, "0:2;2:1",
	  "layer 2 is on row 2, a MIG instance, and the ranks of vLLM need "
	  "whole cards: publish the map with one row, or with cards" },
	{ GPUMAP_ENGINE_LLAMA_CPP, "4:1;0:1;5:1",
	  "layer 2 is on row 5, and other layers on host row 4: llama.cpp has "
	  "one CPU device; publish the map with one host row" },
};

static void refusals_name_layer_and_remedy(void)
{
	struct gpumap_engine_settings *s;

	table_make(4, 2, true);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		table_map(refusals[i].spec);
		EQ(table_export(refusals[i].engine, 0, &s), -EOPNOTSUPP);
		STR(gpumap_refusal(NULL), refusals[i].why);
		OK(s == NULL);
	}
}

/* Is a map refused because of its row 1? */
static bool row_is_refused(int error, const char *why)
{
	struct gpumap_engine_settings *s;

	table_map("0:3;1:2");
	return EQ(table_export(GPUMAP_ENGINE_ENV, 0, &s), error) &&
	       STR(gpumap_refusal(NULL), why);
}

static void rows_have_to_be_usable(void)
{
	table_make(2, 0, false);
	table[1].flags = 0;
	row_is_refused(
		-EOPNOTSUPP,
		"layer 3 is on row 1, a dummy, which holds no data: "
		"publish the map with a host row or a card in its place");
	table_make(2, 0, false);
	table[1].state = GPUMAP_DEVICE_LOST;
	row_is_refused(-ENODEV, "layer 3 is on row 1, which is lost: publish "
				"the map without it");
	table[1].state = GPUMAP_DEVICE_FAILED;
	row_is_refused(-ENODEV, "layer 3 is on row 1, which is failed: publish "
				"the map without it");
	table_make(2, 0, false);
	table[1].flags |= GPUMAP_DEVICE_MIG;
	row_is_refused(-EOPNOTSUPP,
		       "layer 3 is on row 1, a card that is split into MIG "
		       "instances: publish the map with the instances' rows");
	table_make(1, 0, false);
	row_is_refused(-ENODEV, "layer 3 is on row 1, which does not exist");
}

static void llama_cpp_has_limits(void)
{
	struct gpumap_engine_settings *s;

	table_make(16, 1, false);
	table_map("0:1;1:1;2:1;3:1;4:1;5:1;6:1;7:1;8:1;9:1;10:1;11:1;12:1;"
		  "13:1;14:3");
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), 0);
	gpumap_engine_free(s);
	rows[16] = 15;
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), -EOPNOTSUPP);
	STR(gpumap_refusal(NULL),
	    "layer 16 is on row 15: llama.cpp shares layers out over 15 GPUs "
	    "at most; publish the map with fewer rows");
	table_map("0:1;16:512");
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), 0);
	gpumap_engine_free(s);
	table_map("0:1;16:513");
	EQ(table_export(GPUMAP_ENGINE_LLAMA_CPP, 0, &s), -EOPNOTSUPP);
	OK(strstr(gpumap_refusal(NULL), "layer 513 is on row 16: ") != NULL);
}

static int ask(const struct gpumap_engine_request *request)
{
	struct gpumap_engine_settings *s = NULL;
	int ret = gpumap_engine_export(NULL, NULL, request, &s);

	OK(ret != 0 && s == NULL && gpumap_refusal(NULL)[0] != '\0');
	gpumap_engine_free(s);
	return ret;
}

static void requests_are_checked(void)
{
	struct gpumap_engine_request good = { .size = sizeof(good),
					      .engine = GPUMAP_ENGINE_ENV,
					      .rows = rows,
					      .n_layers = 1,
					      .devices = table,
					      .n_devices = 2 },
				     r = good;
	struct gpumap_engine_settings *s;

	table_make(2, 0, false);
	table_map("0:1");
	EQ(ask(NULL), -EINVAL);
	r.size = 0;
	EQ(ask(&r), -EINVAL);
	r = good;
	r.engine = 0;
	EQ(ask(&r), -EINVAL);
	r.engine = 99;
	EQ(ask(&r), -EINVAL);
	r = good;
	r.flags = 1u << 31;
	EQ(ask(&r), -E2BIG);
	r = good;
	r.n_layers = 0;
	EQ(ask(&r), -EINVAL);
	r.n_layers = 65537;
	EQ(ask(&r), -E2BIG);
	r = good;
	r.rows = NULL;
	EQ(ask(&r), -EINVAL);
	r = good;
	r.base_row = 2;
	EQ(ask(&r), -ENODEV);
	r.engine = GPUMAP_ENGINE_VLLM;
	EQ(ask(&r), -ENODEV);
	r = good;
	r.devices = NULL;
	EQ(ask(&r), -EINVAL);
	r = good;
	r.n_devices = 257;
	EQ(ask(&r), -EINVAL);
	r = good;
	table[1].size = 0;
	EQ(ask(&r), -EINVAL);
	table[1].size = sizeof(table[1]);
	EQ(gpumap_engine_export(NULL, "llama", &good, &s), -EINVAL);
	EQ(gpumap_engine_export(NULL, NULL, &good, &s), 0);
	STR(gpumap_refusal(NULL), "");
	gpumap_engine_free(s);
}

TAP_CASE()
{
	each_engine_gets_its_words();
	a_base_row_may_hold_no_layer();
	a_host_among_several_is_told();
	instances_are_named();
	devices_without_uuids_are_counted();
	refusals_name_layer_and_remedy();
	rows_have_to_be_usable();
	llama_cpp_has_limits();
	requests_are_checked();
	return tap_done();
}

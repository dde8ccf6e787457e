/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl collective: its result is right on every rank, as text and
 * as JSON, or a message gives the reason of its failure.  With STAGE_CUDA the
 * ranks are cards.
 */

#include "tests/support/story_rows.h"
#include "tests/support/ctl.h"

static void collectives_are_right(void)
{
	static const struct {
		const char *op;
		json_int_t bytes;
	} ops[] = {
		{ "all_reduce", 1 << 20 }, { "all_gather", 1 << 20 },
		{ "broadcast", 1 << 20 },  { "reduce_scatter", 3 << 20 },
		{ "send", 1 << 20 },       { "barrier", 0 },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		const json_t *rows;
		json_t *json;

		EQ(CTL("collective", "ring", "world", "--json", "--op",
		       ops[i].op, "--bytes", "1M", "--rounds", "2"),
		   DONE);
		json = object();
		OK(has_fields(json, "op mesh group rows bytes rounds best_ns "
				    "gigabytes_per_second right nccl"));
		STR(text(json, "op"), ops[i].op);
		STR(text(json, "mesh"), "ring");
		STR(text(json, "group"), "world");
		EQ(number(json, "bytes"), ops[i].bytes);
		EQ(number(json, "rounds"), 2);
		OK(json_is_true(json_object_get(json, "right")));
		rows = list(json, "rows", 3);
		EQ(json_integer_value(json_array_get(rows, 0)), 2);
		EQ(json_integer_value(json_array_get(rows, 2)), 1);
		json_decref(json);
	}
	/* Large enough to lie at multiples of 2 MiB. */
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		EQ(CTL("collective", "ring", "world", "--op", ops[i].op,
		       "--bytes", "3000000", "--rounds", "1"),
		   DONE);
	EQ(CTL("collective", "ring", "two", "--bytes", "4"), DONE);
	OK(prints("  rank  0  row   0\n  rank  1  row   2\n"));
	OK(prints("all_reduce of 4 B from each of 2 ranks: every element is "
		  "right; best of 3 rounds "));
	EQ(CTL("collective", "ring", "two", "--op", "send", "--bytes", "4"),
	   DONE);
	OK(prints("send of 4 B from rank 0, of 2 ranks: every element is "
		  "right; best of 3 rounds "));
	EQ(CTL("collective", "ring", "world", "--op", "barrier"), DONE);
	OK(prints("barrier of 3 ranks: best of 3 rounds "));
}

static void what_is_wrong_is_said(void)
{
	EQ(CTL("collective", "nobody", "world"), FAILED);
	OK(complains("group \"world\" of mesh \"nobody\""));
	EQ(CTL("collective", "ring", "nobody"), FAILED);
	OK(complains("no such group; see gpumapctl mesh show"));
	EQ(CTL("collective", "ring", "world", "--op", "divide"), USAGE);
	OK(complains("--op is all_reduce, all_gather, reduce_scatter, "
		     "broadcast, send or barrier, not \"divide\""));
	EQ(CTL("collective", "ring", "world", "--bytes", "3"), USAGE);
	EQ(CTL("collective", "ring", "world", "--rounds", "0"), USAGE);
	EQ(CTL("collective", "ring"), USAGE);
	EQ(CTL("collective", "ring", "world", "--rows", "0"), USAGE);
	EQ(CTL("collective", "ring", "alone", "--op", "send"), FAILED);
	OK(complains("a send needs two ranks"));
}

#ifdef STAGE_CUDA

/* NCCL is asked for, and used or not; --json says which. */
static void ask(const char *group, bool wants, bool has)
{
	json_t *json;

	EQ(CTL("collective", "ring", group, "--json", "--bytes", "64K",
	       wants ? "--nccl" : "--json"),
	   DONE);
	json = object();
	OK(json_is_true(json_object_get(json, "right")));
	EQ(json_is_true(json_object_get(json, "nccl")), has);
	json_decref(json);
}

/* Another agent, which may use NCCL: three cards and a host row. */
static void cards_do_it_by_nccl(void)
{
	char text[160];

	EQ(agent_kill(&agent, SIGTERM), 0);
	snprintf(text, sizeof(text), "nccl = yes\nnccl-library = %s\n",
		 stage_scene.driver);
	cuda_scene_agent(&stage_scene, &agent, text, "[host]\nrows = 3\n");
	if (!OK(agent_start(&agent)) ||
	    !EQ(CTL("mesh", "publish", "ring", "--topology", "data", "--rows",
		    "2,0,1,4", "--group", "cards=0,2,1"),
		DONE))
		return;
	ask("cards", true, true);
	ask("cards", false, false);
	ask("world", true, false);
	for (const char *const *op = WORDS("all_gather", "reduce_scatter",
					   "broadcast", "send", "barrier");
	     *op != NULL; op++)
		EQ(CTL("collective", "ring", "cards", "--nccl", "--op", *op,
		       "--bytes", "3000000", "--rounds", "2"),
		   DONE);
	EQ(CTL("collective", "ring", "cards", "--nccl", "--bytes", "4"), DONE);
	OK(prints("  by NCCL, what it does\n"));
	EQ(CTL("collective", "ring", "world", "--nccl", "--bytes", "4"), DONE);
	OK(prints("  by way of the host: NCCL wants cards alone, and nccl not "
		  "to be no, see gpumapd.conf(5)\n"));
}

#endif

TAP_CASE()
{
#ifdef STAGE_CUDA
	uint64_t copies;
#endif

	stage_make(&agent, "[host]\nrows = 3\n");
	if (OK(agent_start(&agent)) &&
	    EQ(CTL("mesh", "publish", "ring", "--topology", "data", "--rows",
		   "2,0,1", "--group", "two=1,0", "--group", "alone=2"),
	       DONE)) {
#ifdef STAGE_CUDA
		copies = cuda_scene_copies(&stage_scene, 0);
#endif
		collectives_are_right();
#ifdef STAGE_CUDA /* of the card's own memory */
		OK(cuda_scene_copies(&stage_scene, 0) > copies);
#endif
		what_is_wrong_is_said();
#ifdef STAGE_CUDA
		cards_do_it_by_nccl();
#endif
	}
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}

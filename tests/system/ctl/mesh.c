/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Checks gpumapctl mesh: publish, list, show, release; tables, pictures and
 * JSON. */

#include "tests/support/ctl.h"

#define MESH_FIELDS                                                \
	"name version published_ns owner_uid topology world_size " \
	"expected_world_size tp pp dp n_groups"

static const char node[] =
	"rows:\n"
	"- { name: A, kind: cuda, count: 9, memory: 24G,\n"
	"    compute-capability: 9.0, sm-count: 100, threads-per-sm: 2048 }\n";

static void meshes_are_published_and_listed(void)
{
	const json_t *meshes;
	char end[64];
	json_t *json;

	EQ(CTL("mesh", "publish", "train", "--topology", "mixed=2x2x2",
	       "--group", "mine=5,0,3"),
	   DONE);
	OK(prints("train: version "));
	OK(prints(", mixed=2x2x2 over 9 ranks, 14 groups\n"));
	EQ(CTL("mesh", "publish", "serve", "--topology", "tensor=2", "--rows",
	       "3,1", "--json"),
	   DONE);
	json = object();
	OK(has_fields(json, MESH_FIELDS));
	STR(text(json, "topology"), "tensor=2");
	EQ(number(json, "world_size"), 2);
	json_decref(json);
	EQ(CTL("mesh", "list"), DONE);
	snprintf(end, sizeof(end), " mixed=2x2x2          9     14 %6u\n",
		 geteuid());
	OK(prints("train "));
	OK(prints(end));
	OK(prints("serve "));
	EQ(CTL("mesh", "list", "--json"), DONE);
	json = object();
	meshes = list(json, "meshes", 2);
	OK(has_fields(json_array_get(meshes, 0), MESH_FIELDS));
	json_decref(json);
}

static void show_draws_ranks_on_rows(void)
{
	EQ(CTL("mesh", "show", "train"), DONE);
	OK(prints("  collectives run in each group, world included: "));
	OK(prints("  rank@row\n"
		  "  replica 0\n"
		  "            +---------+---------+\n"
		  "  stage 0   |   0@0   |   1@1   |\n"
		  "            +---------+---------+\n"
		  "  stage 1   |   2@2   |   3@3   |\n"
		  "            +---------+---------+\n"
		  "  replica 1\n"));
	OK(prints("  left over: 8@8\n"));
	OK(prints("  world                    Mock    whole  0-8\n"));
	OK(prints("  dp_tp1_pp1               Nccl    whole  3,7\n"));
	OK(prints("  mine                     Gloo    whole  5,0,3\n"));
	EQ(CTL("mesh", "show", "serve"), DONE);
	OK(prints("  stage 0   |   0@3   |   1@1   |\n"));
	EQ(CTL("mesh", "publish", "flat", "--topology", "data"), DONE);
	EQ(CTL("mesh", "show", "flat"), DONE);
	OK(prints("  |   0@0   |   1@1   |   2@2   |   3@3   |   4@4   |   "
		  "5@5   |   6@6   |   7@7   |\n"));
	OK(prints("  |   8@8   |\n"));
	EQ(CTL("mesh", "release", "flat"), DONE);
	OK(prints("flat: released\n"));
}

static void show_says_it_in_json(void)
{
	const json_t *ranks, *groups, *last;
	json_t *json;

	EQ(CTL("mesh", "show", "train", "--json"), DONE);
	json = object();
	OK(has_fields(json, MESH_FIELDS " ranks groups stats"));
	ranks = list(json, "ranks", 9);
	groups = list(json, "groups", 14);
	OK(has_fields(json_array_get(ranks, 5), "rank row tp pp dp"));
	EQ(number(json_array_get(ranks, 5), "dp"), 1);
	OK(json_is_null(json_object_get(json_array_get(ranks, 8), "dp")));
	last = json_array_get(groups, 13);
	OK(has_fields(last, "name backend epoch whole ranks rows"));
	STR(text(last, "name"), "mine");
	STR(text(last, "backend"), "Gloo");
	EQ(json_integer_value(
		   json_array_get(json_object_get(last, "ranks"), 0)),
	   5);
	OK(has_fields(json_object_get(json, "stats"),
		      "total_bytes units n_cards n_host n_dummy n_ready"));
	EQ(number(json_object_get(json, "stats"), "n_dummy"), 9);
	json_decref(json);
}

static void what_is_wrong_is_said(void)
{
	EQ(CTL("mesh", "show", "none"), FAILED);
	OK(complains("there is no mesh \"none\""));
	EQ(CTL("mesh", "release", "none"), FAILED);
	OK(complains("there is no mesh \"none\"; gpumapctl mesh list"));
	EQ(CTL("mesh", "publish", "m", "--topology", "tensor=10"), FAILED);
	OK(complains("Tensor parallel degree 10 requires at least 10 devices, "
		     "got 9; give more rows"));
	EQ(CTL("mesh", "publish", "m", "--topology", "tensor=0"), USAGE);
	OK(complains("Tensor parallel degree 0 is no degree"));
	EQ(CTL("mesh", "publish", "m", "--topology", "ring"), USAGE);
	OK(complains("\"ring\" is no topology; give data, tensor=N"));
	EQ(CTL("mesh", "publish", "m", "--topology", "data", "--rows", "9"),
	   FAILED);
	OK(complains("there is no row 9: gpumapctl devices"));
	EQ(CTL("mesh", "publish", "m", "--topology", "data", "--rows", "0,0"),
	   USAGE);
	OK(complains("\"0,0\" is no list of rows: give each once, such as 0,2 "
		     "or 0-3; see"));
	EQ(CTL("mesh", "publish", "m", "--topology", "data", "--group",
	       "a=0,0"),
	   FAILED);
	OK(complains("Group 'a' has rank 0 twice"));
	EQ(CTL("mesh", "publish", "m", "--topology", "data", "--group", "a"),
	   USAGE);
	EQ(CTL("mesh", "publish", "m", "--topology", "data", "--group", "a="),
	   USAGE);
	EQ(CTL("mesh", "publish", "m"), USAGE);
	OK(complains("publish needs --topology"));
	EQ(CTL("mesh", "publish"), USAGE);
	EQ(CTL("mesh", "list", "all"), USAGE);
	EQ(CTL("mesh", "show", "train", "--topology", "data"), USAGE);
	EQ(CTL("mesh", "paint"), USAGE);
	OK(complains("\"mesh paint\" is no command: mesh publish, mesh list, "
		     "mesh show, mesh release; see"));
	EQ(CTL("mesh"), USAGE);
	OK(complains("\"mesh\" is no command: mesh publish, mesh list"));
	EQ(CTL("mesh", "show"), USAGE);
	OK(complains("takes 1 operand, not 0: mesh show NAME; see"));
	EQ(CTL("mesh", "publish", "a b", "--topology", "data"), FAILED);
	OK(complains("a name has no blanks"));
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, node, "[host]\nenabled = no\n");
	if (OK(agent_start_until(&agent, "open"))) {
		meshes_are_published_and_listed();
		show_draws_ranks_on_rows();
		show_says_it_in_json();
		what_is_wrong_is_said();
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}

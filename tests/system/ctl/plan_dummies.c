/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that gpumapctl plan, and plan --commit, put nothing on dummy rows
 * before a list of rows or a spec names them, and that the table marks them.
 */

#include <signal.h>

#include "tests/support/ctl.h"
#include "tests/support/ctl_model.h"

static const char node[] =
	"name: shelf\nrows:\n"
	"  - name: A card with quite a long name\n    kind: cuda\n"
	"    count: 2\n    memory: 80G\n    compute-capability: 9.0\n"
	"    sm-count: 100\n";

/* Two layers of 8 and 16 bytes, and 4 bytes that belong to none. */
static void make_model(void)
{
	static const char header[] =
		"{\"model.embed.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
		"\"data_offsets\":[0,4]},"
		"\"model.layers.0.w\":{\"dtype\":\"F32\",\"shape\":[2],"
		"\"data_offsets\":[4,12]},"
		"\"model.layers.1.w\":{\"dtype\":\"F32\",\"shape\":[2,2],"
		"\"data_offsets\":[12,28]}}";

	write_model("{\"num_hidden_layers\":2,\"hidden_size\":8,"
		    "\"num_attention_heads\":1}",
		    header, 28);
}

#define PLAN(...)   CTL("plan", "--model", model, __VA_ARGS__)
#define COMMIT(...) PLAN("--commit", "m", "--kv-elements", "1", __VA_ARGS__)

/* Returns "SPEC, dummy" where the first charge is to a dummy row. */
static const char *spec_of(void)
{
	static char spec[64];
	const json_t *charge;
	json_t *json;

	if (out[0] == '\0')
		return err;
	json = object();
	charge = json_array_get(json_object_get(json, "charges"), 0);
	snprintf(spec, sizeof(spec), "%s%s", text(json, "spec"),
		 json_is_true(json_object_get(charge, "dummy")) ? ", dummy"
								: "");
	json_decref(json);
	return spec;
}

/* Row 0 is the host's, rows 1 and 2 are dummies. */
static void dummies_have_to_be_named(void)
{
	char topology[160];
	FILE *file;

	snprintf(topology, sizeof(topology), "%s/topology", model);
	file = fopen(topology, "we");
	OK(file != NULL && fputs("0-1:\n  device: cuda[1]\n", file) >= 0 &&
	   fclose(file) == 0);
#define SPEC(want, ...)                                \
	do {                                           \
		EQ(PLAN("--json", __VA_ARGS__), DONE); \
		STR(spec_of(), want);                  \
		EQ(COMMIT("--json", __VA_ARGS__), 0);  \
		STR(spec_of(), want);                  \
		EQ(CTL("release", "m"), DONE);         \
	} while (0)
	SPEC("0:2", "--strategy", "fill");
	SPEC("0:2", "--strategy", "balance");
	SPEC("0:2", "--strategy", "fewest");
	SPEC("0:2", "--setting", "dummy");
	SPEC("0:2", "--setting", "pipeline");
	SPEC("0:2", "--setting", "nccl");
	SPEC("1:2, dummy", "--rows", "0,1,2");
	SPEC("2:2, dummy", "--rows", "2");
	SPEC("1:1;2:1, dummy", "--spec", "1:1;2:1");
	SPEC("2:1;1:1, dummy", "--rows", "0,1,2", "--topology", topology);
#undef SPEC
	EQ(PLAN("--topology", topology), FAILED);
	EQ(COMMIT("--topology", topology), FAILED);
}

static void tables_mark_them(void)
{
	EQ(PLAN("--rows", "0,1"), DONE);
	OK(prints("\n  1* A card with quite a  (dummy) "));
	EQ(CTL("devices"), DONE);
	OK(prints("\n  1  dummy READY "));
}

/* Not in the way of a refusal, either. */
static void what_is_left_out_is_said(void)
{
	remove_model();
	write_model("{\"num_hidden_layers\":2,\"hidden_size\":64,"
		    "\"num_attention_heads\":4,\"num_key_value_heads\":2}",
		    "{\"model.layers.0.w\":{\"dtype\":\"F16\",\"shape\":[1],"
		    "\"data_offsets\":[0,2]},"
		    "\"model.layers.1.w\":{\"dtype\":\"F16\",\"shape\":[1],"
		    "\"data_offsets\":[2,4]}}",
		    4);
	EQ(PLAN("--max-batch", "100000000"), FAILED);
	OK(complains("; 2 dummy rows are left out: no list of rows names "
		     "them; "));
	EQ(COMMIT("--max-batch", "100000000"), FAILED);
	OK(complains("; 2 dummy rows are left out: "));
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, node, "[host]\nrows = 1\n");
	if (!OK(agent_start(&agent)))
		return tap_done();
	snprintf(model, sizeof(model), "%s.model", agent.dir);
	make_model();
	dummies_have_to_be_named();
	tables_mark_them();
	what_is_left_out_is_said();
	remove_model();
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl run on host rows: the command may use the CPUs of its rows
 * and no others, prefers the memory of their nodes, and is left alone by
 * --no-bind; and a model that is planned for it.
 */

#include <sched.h>
#include <signal.h>

#include "tests/support/ctl_model.h"
#include "tests/support/run.h"

#define RUN(...) \
	CTL("run", "--cache-dir", agent.dir, "--reserve", "1M", __VA_ARGS__)

static struct gpumap *map;

/* The CPUs that the last command could use. */
static const char *cpus(void)
{
	char *at = strstr(out, "Cpus_allowed_list:");

	if (at == NULL)
		return "none";
	at += strcspn(at, "\t") + 1;
	at[strcspn(at, "\n")] = '\0';
	return at;
}

#define STATUS "cat", "/proc/self/status"

static void cpus_are_the_rows(void)
{
	struct gpumap_device first = story_device(map, 0),
			     second = story_device(map, 1);
	cpu_set_t all, one;
	char plain[288];

	EQ(run((const char *const[]){ STATUS, NULL }), 0);
	snprintf(plain, sizeof(plain), "%s", cpus());
	EQ(RUN("--rows", "0", STATUS), 0);
	STR(cpus(), first.cpus);
	EQ(RUN("--rows", "1", STATUS), 0);
	STR(cpus(), second.cpus);
	EQ(RUN("--rows", "0,1", STATUS), 0);
	STR(cpus(), plain);
	EQ(RUN("--rows", "0", "--no-bind", STATUS), 0);
	STR(cpus(), plain);
	EQ(RUN("--rows", "1", "--print-env", "--json", "true"), 0);
	snprintf(plain, sizeof(plain), "\"cpus\":\"%s\"", second.cpus);
	OK(prints(plain));
	if (strcmp(first.cpus, second.cpus) == 0 ||
	    strspn(first.cpus, "0123456789") != strlen(first.cpus)) {
		SKIP(4, "needs rows of one CPU each");
		return;
	}
	/* The caller may use the first row's only. */
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(atoi(first.cpus), &one);
	EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	EQ(RUN("--rows", "1", STATUS), 0);
	STR(cpus(), first.cpus);
	OK(strstr(err, "the CPUs stay as they are") != NULL);
	sched_setaffinity(0, sizeof(all), &all);
}

static void memory_is_of_the_node(void)
{
	char want[32];

	if (access("/sys/devices/system/node/node1", F_OK) != 0) {
		SKIP(4, "needs two NUMA nodes");
		return;
	}
	EQ(RUN("--rows", "0", "cat", "/proc/self/numa_maps"), 0);
	snprintf(want, sizeof(want), "prefer:%d",
		 story_device(map, 0).numa_node);
	OK(prints(want));
	EQ(RUN("--rows", "0", "--no-bind", "cat", "/proc/self/numa_maps"), 0);
	OK(strstr(out, "prefer:") == NULL);
}

/* Plan's options reach the plan that is held. */
static void models_are_planned_as_told(void)
{
	char script[640];
	json_t *json;

	snprintf(
		script, sizeof(script),
		"exec '%s' --instance %s --runtime-dir '%s' --json layers told",
		ctl_program(), agent.instance, agent.dir);
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--name",
	       "told", "--strategy", "balance", "--dtype", "f32", "--", "sh",
	       "-c", script),
	   0);
	json = object();
	STR(text(json, "strategy"), "balance");
	STR(text(json, "compute_dtype"), "F32");
	json_decref(json);
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--name",
	       "told", "--spec", "1:1;0:1", "--base-row", "0", "--", "sh", "-c",
	       script),
	   0);
	json = object();
	STR(text(json, "setting"), "manual");
	STR(text(json, "spec"), "1:1;0:1");
	EQ(number(json, "base_row"), 0);
	json_decref(json);
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--split",
	       "3,0", "--print-env", "true"),
	   FAILED);
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--isq",
	       "q4k", "true"),
	   FAILED);
	OK(complains("--isq: the weights are U8"));
	OK(run_all_gone(map));
}

/* The bytes that are reserved for a command that keeps one token. */
static json_int_t reserved_for(const char *option, const char *engine,
			       const char *script)
{
	json_int_t bytes;
	json_t *json;

	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--rows", "1",
	       "--max-seq-len", "1", option, engine, "--", "sh", "-c", script),
	   0);
	json = json_loads(out, 0, NULL);
	bytes = number(json_array_get(list(json, "reservations", 1), 0),
		       "bytes");
	json_decref(json);
	OK(run_all_gone(map));
	return bytes;
}

/* Two layers of 1 MiB, on the second row. */
static void models_are_planned(void)
{
	static const char header[] =
		"{\"model.layers.0.w\":{\"dtype\":\"U8\",\"shape\":[1048576],"
		"\"data_offsets\":[0,1048576]},"
		"\"model.layers.1.w\":{\"dtype\":\"U8\",\"shape\":[1048576],"
		"\"data_offsets\":[1048576,2097152]}}";
	const json_t *held;
	char script[640];
	json_t *json;

	snprintf(model, sizeof(model), "%s/model", agent.dir);
	/* Too little would be reserved for a model of unknown attention. */
	write_model("{\"num_hidden_layers\":2}", header, 2 << 20);
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "true"),
	   FAILED);
	OK(complains("what layer 0 keeps of a sequence: give --kv-elements"));
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model,
	       "--kv-elements", "32", "true"),
	   0);
	remove_model();
	write_model("{\"num_hidden_layers\":2,\"hidden_size\":64,"
		    "\"num_attention_heads\":4}",
		    header, 2 << 20);
	snprintf(script, sizeof(script),
		 "exec '%s' --instance %s --runtime-dir '%s' --json who",
		 ctl_program(), agent.instance, agent.dir);
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--rows", "1",
	       "--name", "planned", "--wait", "60", "--", "sh", "-c", script),
	   0);
	json = json_loads(out, 0, NULL);
	held = json_array_get(list(json, "reservations", 1), 0);
	STR(text(held, "name"), "planned");
	OK(number(held, "pid") > 0 && number(held, "bytes") >= 2 << 20);
	EQ(number(json_array_get(list(held, "rows", 1), 0), "row"), 1);
	json_decref(json);
	OK(run_all_gone(map));
	/* 128 elements of 16 bits in a layer, of 256 tokens in llama.cpp, and
	 * else of one. */
	EQ(reserved_for("--for", "llama.cpp", script) -
		   reserved_for("--for", "env", script),
	   2 * 128 * 2 * (256 - 1));
	EQ(reserved_for("--engine", "llama.cpp", script) -
		   reserved_for("--for", "env", script),
	   2 * 128 * 2 * (256 - 1));
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--rows", "1",
	       "--for", "llama.cpp", "--", "sh", "-c",
	       "echo $LLAMA_ARG_N_GPU_LAYERS $GPUMAP_ROWS"),
	   0);
	STR(out, "0 1\n");
	/* The same without a reservation. */
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--rows", "1",
	       "--for", "llama.cpp", "--print-env", "--", "true"),
	   0);
	OK(strstr(out, "LLAMA_ARG_N_GPU_LAYERS=0\n") != NULL);
	OK(run_all_gone(map));
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--any",
	       "true"),
	   USAGE);
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", agent.dir, "true"),
	   FAILED);
	models_are_planned_as_told();
	/* Ranks of which the engine is told, on cards, and each with heads. */
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--setting",
	       "nccl", "--rows", "0,1", "--for", "llama.cpp", "true"),
	   FAILED);
	OK(complains("llama.cpp is told of no ranks"));
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--setting",
	       "nccl", "--rows", "0,1", "--for", "vllm", "true"),
	   FAILED);
	OK(complains("row 0 is a host row, and vllm has ranks on GPUs only"));
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--setting",
	       "nccl", "--rows", "0,1", "--for", "env", "--", "sh", "-c",
	       "echo $GPUMAP_ROWS"),
	   0);
	STR(out, "0,1\n");
	remove_model();
	write_model("{\"num_hidden_layers\":2,\"hidden_size\":63,"
		    "\"num_attention_heads\":3}",
		    header, 2 << 20);
	EQ(CTL("run", "--cache-dir", agent.dir, "--model", model, "--setting",
	       "nccl", "--rows", "0,1", "--for", "vllm", "true"),
	   FAILED);
	OK(complains("The model's 3 attention heads are not to be divided by 2 "
		     "tensor parallel ranks; take 1"));
	remove_model();
}

TAP_CASE()
{
	if (!ctl_start("[host]\nrows = 2\n"))
		return tap_done();
	map = story_attach(&agent);
	cpus_are_the_rows();
	memory_is_of_the_node();
	models_are_planned();
	story_finish(&agent, map);
	return tap_done();
}

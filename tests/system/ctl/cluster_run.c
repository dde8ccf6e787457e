/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl cluster run where nothing can be reserved: the command does
 * not run, the exit status says why, and no file is left.
 */

#include <sys/stat.h>

#include "tests/support/ctl_cluster.h"
#include "tests/support/story.h"

#define HOUR_NS (3600 * CLUSTER_SECOND)

enum { STALE = 5, NOT_NOW = 75, NOT_FOUND = 127 };

static struct lab_node nodes[2];
static struct gpumap *map;
static char socket_path[128], folder[128];

static void publish(uint64_t limit_ns)
{
	lab_node(&nodes[0], "a", "10.0.0.1");
	lab_node(&nodes[1], "b", "10.0.0.2");
	nodes[0].info.flags = GPUMAP_CLUSTER_SELF;
	for (uint32_t i = 0; i < 2; i++)
		lab_card(&nodes[i], 70);
	EQ(lab_publish(map, nodes, 2, limit_ns, GPUMAP_CLUSTER_HEARD), 0);
}

#define RUN(...)                                                            \
	CTL("cluster", "run", "--sync", socket_path, "--cache-dir", folder, \
	    "--layers", "8", "--bytes", "80G", __VA_ARGS__)

static void nothing_runs_without_a_reservation(void)
{
	publish(HOUR_NS);
	EQ(RUN("--", "echo", "ran"), NO_AGENT);
	OK(complains("cluster run: "));
	EQ(RUN("--wait", "0", "echo", "--tp", "ran"), NO_AGENT);
	EQ(RUN("--bytes", "300G", "--", "echo", "ran"), NOT_NOW);
	OK(strstr(err, "layers fit on nodes a, b") != NULL);
	STR(out, "");
	EQ(RUN("--bytes", "300G", "--wait", "1", "--", "echo", "ran"), NOT_NOW);
	OK(strstr(err, "there was no room for 1 s\n") != NULL);
	EQ(RUN("--nodes", "3", "--", "echo", "ran"), NOT_NOW);
	EQ(RUN("--", "/no/such/command"), NOT_FOUND);
	EQ(RUN("--json", "--", "echo", "ran"), USAGE);
	EQ(RUN("--for", "x", "--", "echo", "ran"), USAGE);
	EQ(RUN("--"), USAGE);
	OK(complains("needs a command to run"));
	EQ(RUN("--only", "b", "--bytes", "40G", "--for", "vllm", "--", "echo"),
	   FAILED);
	OK(complains("this node, a, is not in the plan, and vllm runs on nodes "
		     "that are: run it on b, or give --only"));
	publish(1);
	EQ(RUN("--", "echo", "ran"), STALE);
	EQ(lab_count_files(folder), 0);
}

TAP_CASE()
{
	if (!ctl_start(NULL))
		return tap_done();
	snprintf(socket_path, sizeof(socket_path), "%s/none", agent.dir);
	snprintf(folder, sizeof(folder), "%s/files", agent.dir);
	EQ(mkdir(folder, 0700), 0);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	map = story_attach(&agent);
	nothing_runs_without_a_reservation();
	gpumap_detach(map);
	return tap_done();
}

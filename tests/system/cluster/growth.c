/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A cluster of as many nodes as there may be is published again and again: the
 * agent's memory does not grow, and neither does what the segment has in use.
 */

#include <stdio.h>

#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/story.h"

#define FIRST  100 /* publications before the first look */
#define MANY   1000
#define BEGINS 10 /* of all nodes anew, after that */

static const struct cluster_nodes nodes = { GPUMAP_CLUSTER_NODES_MAX, 8, 4, 1 };

static struct agent agent;
static struct gpumap *map;
static struct cluster_node node;

/* KiB of a line of the agent's status, such as "VmRSS:". */
static long memory_of(const char *what)
{
	char path[64], line[128];
	long kib = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)agent.pid);
	file = fopen(path, "re");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, what, strlen(what)) == 0)
			kib = strtol(line + strlen(what), NULL, 10);
	if (file != NULL)
		fclose(file);
	return kib;
}

/* One node has other figures, and the whole object is published. */
static int change_one(uint32_t i)
{
	struct cluster_nodes other = nodes;
	struct gpumap_cluster_entry entry;
	struct gpumap_cluster_request request;

	other.content = i;
	entry = cluster_node_make(&other, i % nodes.n, &node);
	request = cluster_request(&entry, 1, GPUMAP_CLUSTER_HEARD);
	return gpumap_cluster_publish(map, &request);
}

static int change_many(uint32_t n)
{
	int ret = 0;

	for (uint32_t i = 0; i < n && ret == 0; i++)
		ret = change_one(i);
	return ret;
}

static void nothing_grows(void)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	uint64_t began, version;
	long resident, data;

	EQ(cluster_nodes_publish(map, &nodes, 0), 0);
	EQ(cluster_nodes_check(map, &nodes), 0);
	EQ(change_many(FIRST), 0);
	EQ(gpumap_cluster_read(map, &cluster), 0);
	version = cluster.version;
	resident = memory_of("VmRSS:");
	data = memory_of("VmData:");
	began = story_now();
	EQ(change_many(MANY), 0);
	NOTE("%d publications of %u devices, %.2f ms each", MANY,
	     cluster.n_devices, (double)(story_now() - began) / 1000000 / MANY);
	for (int i = 0; i < BEGINS; i++)
		EQ(cluster_nodes_publish(map, &nodes, 0), 0);
	EQ(cluster_nodes_check(map, &nodes), 0);
	EQ(gpumap_cluster_read(map, &cluster), 0);
	EQ(cluster.version, (intmax_t)version + MANY + BEGINS);
	NOTE("resident %ld KiB, then %ld; data %ld KiB, then %ld", resident,
	     memory_of("VmRSS:"), data, memory_of("VmData:"));
	/* Less than one of so many copies of the nodes. */
	OK(resident > 0 && memory_of("VmRSS:") < resident + 2048);
	OK(data > 0 && memory_of("VmData:") < data + 2048);
}

/* Nor do series that never end, one for each connection. */
static void no_series_is_kept(void)
{
	const struct cluster_nodes large = { 1, 64, 64, 2 };
	struct gpumap_cluster_entry entry = cluster_node_make(&large, 0, &node);
	const struct gpumap_cluster_request request = cluster_request(
		&entry, 1, GPUMAP_CLUSTER_BEGIN | GPUMAP_CLUSTER_MORE);
	long resident = 0;

	for (int i = 0; i < MANY; i++) {
		struct gpumap *own = story_attach(&agent);

		if (own == NULL || gpumap_cluster_publish(own, &request) != 0) {
			OK(!"a series begins");
			break;
		}
		gpumap_detach(own);
		if (i == FIRST)
			resident = memory_of("VmRSS:");
	}
	NOTE("resident %ld KiB, then %ld", resident, memory_of("VmRSS:"));
	OK(resident > 0 && memory_of("VmRSS:") < resident + 2048);
}

TAP_CASE()
{
#ifdef GM_SANITIZED
	SKIP(1, "sanitizers keep what was freed");
	return tap_done();
#endif
	agent_make(&agent, "[segment]\nsize = 16M\n");
	if (OK(agent_start_until(&agent, "open")) &&
	    OK((map = story_attach(&agent)))) {
		nothing_grows();
		no_series_is_kept();
	}
	story_finish(&agent, map);
	return tap_done();
}

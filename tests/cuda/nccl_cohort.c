/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap/nccl.h: ranks of a cohort meet by way of two gpumap-syncs, without an
 * agent. */

#include "tests/cuda/nccl_stories.h"
#include "tests/support/nodes/sync_nodes.h"

#define NODES 2

static struct sync_place place;
static struct sync_node nodes[NODES];
static struct gpumap_sync *sync_here;
static char folder[] = "/tmp/gpumap-test.nccl.XXXXXX";

static bool meet_open(int rank)
{
	return gpumap_sync_open(nodes[rank % NODES].socket, &sync_here) == 0;
}

static int meet_init(int rank, uint64_t deadline_ns)
{
	return gpumap_nccl_init_cohort(sync_here, "m", RANKS, (uint32_t)rank,
				       deadline_ns, &nccl);
}

static const char *meet_refusal(void)
{
	return gpumap_refusal(NULL);
}

static void meet_close(void)
{
	gpumap_sync_close(sync_here);
}

static bool place_begin(void)
{
	static const char *const names[NODES] = { "a", "b" };
	bool starts = OK(mkdtemp(folder) != NULL);

	if (!starts)
		return false;
	sync_place_file(&place, folder);
	for (int i = 0; i < NODES; i++) {
		sync_node_make(&nodes[i], names[i], NULL);
		sync_node_spawn(&nodes[i], &place);
		starts = OK(sync_node_wait_log(&nodes[i], "lease_held")) &&
			 starts;
	}
	return starts;
}

static void place_end(void)
{
	char command[64];

	for (int i = 0; i < NODES; i++) {
		if (tap_failures)
			sync_node_show_log(&nodes[i]);
		EQ(sync_node_kill(&nodes[i], SIGTERM), 0);
		sync_node_remove(&nodes[i]);
	}
	snprintf(command, sizeof(command), "rm -r %s", folder);
	EQ(system(command), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	return nccl_stories(argv);
}

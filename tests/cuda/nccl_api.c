/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap/nccl.h: ranks of a mesh meet by way of the agent. */

#include "tests/cuda/nccl_stories.h"

static struct agent agent;
static struct gpumap *map;
static struct gpumap *map_here;

static bool meet_open(int rank)
{
	(void)rank;
	map_here = story_attach(&agent);
	return map_here != NULL;
}

static int meet_init(int rank, uint64_t deadline_ns)
{
	return gpumap_nccl_init(map_here, "m", NULL, (uint32_t)rank,
				deadline_ns, &nccl);
}

static const char *meet_refusal(void)
{
	return gpumap_refusal(map_here);
}

static void meet_close(void)
{
	gpumap_detach(map_here);
}

static int publish(void)
{
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "m",
		.topology = GPUMAP_MESH_DATA,
		.tp = 1,
		.pp = 1,
		.dp = 1,
	};

	return gpumap_mesh_publish(map, &request);
}

static bool place_begin(void)
{
	agent_make(&agent, "[host]\nrows = 4\n");
	return OK(agent_start(&agent)) &&
	       OK((map = story_attach(&agent)) != NULL) && EQ(publish(), 0);
}

static void place_end(void)
{
	if (map != NULL)
		story_finish(&agent, map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	return nccl_stories(argv);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mesh_agent.h - a mesh of four rows, and its groups as they are when whole.
 */
#ifndef GM_TEST_SUPPORT_MESH_AGENT_H
#define GM_TEST_SUPPORT_MESH_AGENT_H

#include <errno.h>

#include "tests/support/story.h"

#define NCCL_NOW 22809u

/* World, where @name is NULL; waited for until all its rows are READY. */
static inline struct gpumap_mesh_group mesh_group(struct gpumap *at,
						  const char *name)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret;

	do
		ret = gpumap_mesh_group(at, "m", name, &group, NULL, NULL, 0);
	while ((ret == -EAGAIN || (ret == 0 && !group.whole)) &&
	       story_now() < until);
	return group;
}

/* "m", again where it is there. */
static inline int mesh_publish(struct gpumap *at)
{
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "m",
		.topology = GPUMAP_MESH_TENSOR,
		.tp = 2,
		.pp = 1,
		.dp = 1,
	};

	return gpumap_mesh_publish(at, &request);
}

#endif

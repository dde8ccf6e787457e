/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/mesh_agent.h"

struct gpumap_mesh_group mesh_group(struct gpumap *at, const char *name)
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

int mesh_publish(struct gpumap *at)
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

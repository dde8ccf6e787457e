/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent is killed while clients publish and release meshes, and while it
 * brings them back.  An answer that a client got is true after the next start,
 * also on a new machine; without an answer the mesh is as before or as asked,
 * and whole.
 */

#include "tests/support/told_stories.h"

#define ROWS 2u

/* All of a mesh follows from a number: its shape, its rows and two groups. */
static int publish(struct gpumap *to, const char *name, uint32_t content)
{
	const uint32_t rows[ROWS] = { content % 2, 1 - content % 2 };
	const uint32_t ranks[ROWS] = { content / 2 % 2, 1 - content / 2 % 2 };
	char group[32];
	const struct gpumap_mesh_added added = { .name = group,
						 .ranks = ranks,
						 .n = ROWS,
						 .backend = GPUMAP_MESH_GLOO };
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = name,
		.topology = content % 3 == 0 ? GPUMAP_MESH_TENSOR
					     : GPUMAP_MESH_PIPELINE,
		.tp = content % 3 == 0 ? 1 + content / 3 % 2 : 1,
		.pp = content % 3 == 0 ? 1 : 1 + content / 3 % 2,
		.dp = 1,
		.rows = rows,
		.n_rows = ROWS,
		.added = &added,
		.n_added = 1,
	};

	snprintf(group, sizeof(group), "g%u", content);
	return gpumap_mesh_publish(to, &request);
}

static bool is_content(const char *name, uint32_t content)
{
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	uint32_t rows[ROWS], ranks[ROWS];
	char group[32];
	int ret = gpumap_mesh_read(map, name, &mesh, rows, ROWS);

	if (content == NOTHING)
		return ret == -ENOENT;
	snprintf(group, sizeof(group), "g%u", content);
	return ret == 0 && mesh.n_added == 1 && rows[0] == content % 2 &&
	       rows[1] == 1 - content % 2 &&
	       mesh.expected == 1 + content / 3 % 2 &&
	       (mesh.topology == GPUMAP_MESH_TENSOR) == (content % 3 == 0) &&
	       gpumap_mesh_group(map, name, group, NULL, ranks, rows, ROWS) ==
		       0 &&
	       ranks[0] == content / 2 % 2 &&
	       rows[0] == (ranks[0] + content) % 2;
}

TAP_CASE()
{
	static const struct told_kind kind = {
		.publish = publish,
		.release = gpumap_mesh_release,
		.is_content = is_content,
		.next = gpumap_mesh_next,
	};

	return told_case(&kind);
}

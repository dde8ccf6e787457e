/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * arrange - from rows and a shape to what a mesh's block is made of.
 */
#ifndef GM_DAEMON_MESHES_ARRANGE_H
#define GM_DAEMON_MESHES_ARRANGE_H

#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/mesh/mesh.h"
#include "shm/meshes.h"

struct gm_arrange_ask {
	const char *name;
	uint32_t uid;
	struct gm_mesh_shape shape;
	uint32_t n_rows;
	uint32_t n_added;
	const uint32_t *rows; /* of the ranks, which are there */
	const struct gm_meshes_group *added;
};

/* A mesh with all that it points to, but for its name. */
struct gm_arranged {
	struct gm_meshes mesh;
	void *memory;
};

/*
 * gm_arrange - arrange rows
 *
 * ret		give it back with gm_arranged_free(); the ask's name must live
 *		as long
 *
 * Returns	0
 *		-EINVAL		no rows or one twice, a factor of 0, a world
 *				that is too small, or a group that cannot be
 *		-EEXIST		a group has the name of one of the shape's
 *		-EOVERFLOW	factors whose product leaves 64 bits
 *		-E2BIG		more rows or groups than a mesh can have
 *		-ENOMEM
 */
int gm_arrange(const struct gm_arrange_ask *ask, char ret_why[GM_WHY_BYTES],
	       struct gm_arranged *ret);

/* Allowed for a zeroed one. */
void gm_arranged_free(struct gm_arranged *arranged);

#endif

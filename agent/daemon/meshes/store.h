/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store - put a mesh into the directory.
 */
#ifndef GM_DAEMON_MESHES_STORE_H
#define GM_DAEMON_MESHES_STORE_H

#include "agent/daemon/segment/directory.h"
#include "shm/meshes.h"

/*
 * gm_mesh_store_prepare - the first of the two steps: a block, filled
 *
 * mesh		its name may be replaced
 * least_version	the object gets at least this version
 *
 * Returns	0, -ENOSPC, -ENOMEM
 */
int gm_mesh_store_prepare(struct gm_daemon *d, const struct gm_meshes *mesh,
			  uint64_t least_version, char ret_why[GM_WHY_BYTES],
			  struct gm_put *ret_put);

/* The second: every group gets an epoch, and the slot is stored. */
void gm_mesh_store(struct gm_daemon *d, const struct gm_put *put);

/* Both steps, for a mesh of a state file; its version will be above @version.
 * Returns as gm_mesh_store_prepare(). */
int gm_mesh_store_restore(struct gm_daemon *d, const struct gm_meshes *mesh,
			  uint64_t version, char ret_why[GM_WHY_BYTES]);

#endif

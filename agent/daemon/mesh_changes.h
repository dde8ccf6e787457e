/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mesh_changes - the changes that clients ask for: publish a mesh, release
 * one. */
#ifndef GM_MESH_CHANGES_H
#define GM_MESH_CHANGES_H

#include "shm/control.h"

struct gm_connection;
struct gm_request;

/* MESH_PUBLISH, when its turn has come.  Returns 0, or a refusal's status. */
int gm_mesh_change_handle(struct gm_connection *c, const struct gm_request *r);

/* Take a mesh out of the directory when it is its turn.  @name is copied.
 * Returns 0, -ENOMEM. */
int gm_mesh_change_release(struct gm_connection *c,
			   const struct gm_control *header, const char *name);

#endif

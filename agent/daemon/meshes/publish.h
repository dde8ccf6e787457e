/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mesh_changes - a change that clients ask for: publish a mesh. */
#ifndef GM_DAEMON_MESHES_PUBLISH_H
#define GM_DAEMON_MESHES_PUBLISH_H

#include "shm/control.h"

struct gm_connection;
struct gm_request;

/* MESH_PUBLISH, when its turn has come.  Returns 0, or a refusal's status. */
int gm_mesh_change_handle(struct gm_connection *c, const struct gm_request *r);

#endif

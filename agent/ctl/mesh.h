/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mesh - what the files of the family mesh have in common. */
#ifndef GM_CTL_MESH_H
#define GM_CTL_MESH_H

#include "agent/ctl/ctl.h"
#include "agent/mesh/mesh.h"

/* "mixed=2x2x2": a topology as the command line takes it. */
const char *gm_ctl_topology(const struct gpumap_mesh *mesh,
			    char ret_text[GM_MESH_TEXT]);

/* What list has of a mesh; a new reference. */
json_t *gm_ctl_mesh_head(const struct gpumap_mesh *mesh);

#endif

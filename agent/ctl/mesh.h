/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mesh - functions that the mesh commands share. */
#ifndef GM_CTL_MESH_H
#define GM_CTL_MESH_H

#include "agent/ctl/ctl.h"
#include "agent/mesh/mesh.h"

/* Print a topology in the form of the command line: "mixed=2x2x2". */
const char *gm_ctl_topology(const struct gpumap_mesh *mesh,
			    char ret_text[GM_MESH_TEXT]);

/* The fields that list prints of a mesh; a new reference. */
json_t *gm_ctl_mesh_head(const struct gpumap_mesh *mesh);

#endif

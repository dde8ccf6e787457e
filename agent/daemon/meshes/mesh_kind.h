/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mesh_kind - meshes as a kind of object.  Epochs are stored in their words
 * while readers see them, and are in no file.
 */
#ifndef GM_DAEMON_MESHES_MESH_KIND_H
#define GM_DAEMON_MESHES_MESH_KIND_H

#include "agent/daemon/state/state.h"
#include "shm/meshes.h"

extern const struct gm_state_kind gm_mesh_kind;

/* The words of a mesh's block, without a version; to be freed.  NULL: no
 * memory. */
uint64_t *gm_mesh_kind_words(const struct gm_meshes *mesh);

#endif

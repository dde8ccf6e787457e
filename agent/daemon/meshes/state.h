/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state - the truth about acknowledged meshes, as map/state.h has it for
 * layer maps; the segment is its cache.
 *
 * Every mesh has a file, which is on the disk before the slot is stored, and
 * off it before the slot is cleared.  There are no held meshes.
 */
#ifndef GM_DAEMON_MESHES_STATE_H
#define GM_DAEMON_MESHES_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/state/state.h"

struct gm_daemon;

extern const struct gm_state_kind gm_mesh_state_kind;

/* Rows came: publish what waited for them.  Called by
 * gm_state_recheck(). */
void gm_mesh_state_recheck(struct gm_daemon *d);

/* As struct gm_state_kind has them. */
int gm_mesh_state_may_replace(const struct gm_daemon *d, const char *name,
			      uint32_t uid, char ret_why[GM_WHY_BYTES],
			      bool *ret_is_waiting);
void gm_mesh_state_replaced(struct gm_daemon *d, const char *name);

/* Write a mesh's file, and remove it if there is one, on the I/O thread.
 * Return as gm_state_dir_write() and gm_state_dir_remove(). */
int gm_mesh_state_write(const struct gm_state_dir *dir, const char *name,
			const char *text, size_t bytes,
			char ret_why[GM_WHY_BYTES]);
int gm_mesh_state_remove(const struct gm_state_dir *dir, const char *name,
			 char ret_why[GM_WHY_BYTES]);

#endif

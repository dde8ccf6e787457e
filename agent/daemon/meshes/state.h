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

#include "agent/daemon/base/refusal.h"
#include "agent/daemon/state/dir.h"

struct gm_daemon;

/* As gm_state_exit(). */
void gm_state_meshes_exit(struct gm_daemon *d);

/*
 * gm_state_meshes_restore - make the directory say what the meshes' files say
 *
 * Returns	as gm_state_restore(), which calls it
 */
int gm_state_meshes_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

/* Rows came: publish what waited for them.  Called by gm_state_look(). */
void gm_state_meshes_look(struct gm_daemon *d);

/* As gm_state_may_replace(), gm_state_names() and gm_state_replaced() are for
 * maps. */
int gm_state_meshes_may_replace(const struct gm_daemon *d, const char *name,
				uint32_t uid, char ret_why[GM_WHY_BYTES],
				bool *ret_is_waiting);
bool gm_state_meshes_name(const struct gm_daemon *d, const uint8_t uuid[16]);
void gm_state_meshes_replaced(struct gm_daemon *d, const char *name);

/* Write a mesh's file, and remove it if there is one; by the clerk.  Return as
 * gm_state_dir_write() and gm_state_dir_remove(). */
int gm_state_meshes_write(const struct gm_state_dir *dir, const char *name,
			  const char *text, size_t bytes,
			  char ret_why[GM_WHY_BYTES]);
int gm_state_meshes_remove(const struct gm_state_dir *dir, const char *name,
			   char ret_why[GM_WHY_BYTES]);

#endif

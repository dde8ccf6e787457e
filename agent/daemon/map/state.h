/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state - the truth about acknowledged layer maps; the segment is its cache.
 *
 * Every map that a client was told is published has a file, but for HELD ones,
 * which end with a process, and those of the configuration.  The file is on
 * the disk before the slot is stored, and off it before the slot is cleared,
 * so whatever an agent dies of, the next one finds out from the files what it
 * has to answer for.
 *
 * Where a HELD map takes a name over, the file of the map before is set aside
 * (renamed) before the slot is stored, and removed after it.  A file that was
 * set aside counts only while the slot still has that map, for then the agent
 * died in between: what a disk would not let go of does not come back.
 */
#ifndef GM_DAEMON_MAP_STATE_H
#define GM_DAEMON_MAP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/map/state_text.h"
#include "agent/daemon/state/state.h"

struct gm_daemon;

extern const struct gm_state_kind gm_map_state_kind;

/*
 * gm_map_state_may_replace - may a uid have this name, which no object has?
 *
 * ret_is_waiting	there is a file that waits under it; may be NULL
 *
 * Returns	0
 *		-EACCES		a file of another uid waits under it
 */
int gm_map_state_may_replace(const struct gm_daemon *d, const char *name,
			     uint32_t uid, char ret_why[GM_WHY_BYTES],
			     bool *ret_is_waiting);

/* The file that waited under this name, if any, is no more or another one. */
void gm_map_state_replaced(struct gm_daemon *d, const char *name);

/*
 * gm_map_state_name_rows - a map with the uuids of its rows, ready for its file
 *
 * layers	what it points to must live as long as the map is used
 *
 * Returns	0, -ENOMEM
 */
int gm_map_state_name_rows(const struct gm_daemon *d,
			   const struct gm_layers *layers, uint64_t version,
			   struct gm_state_map *ret_map);

/*
 * gm_map_state_write - write a map's file, on the I/O thread
 *
 * Returns	as gm_state_dir_write(), or -ENOMEM
 */
int gm_map_state_write(const struct gm_state_dir *dir,
		       const struct gm_state_map *map,
		       char ret_why[GM_WHY_BYTES]);

/*
 * gm_map_state_set_aside - let a map's file count only until its slot moves on
 *
 * The I/O thread calls it.
 *
 * Returns	as gm_state_dir_set_aside()
 */
int gm_map_state_set_aside(const struct gm_state_dir *dir, const char *name,
			   char ret_why[GM_WHY_BYTES], bool *ret_is_there);

/* Remove the file that was set aside, on the I/O thread.  Returns as
 * gm_state_dir_drop_aside(). */
int gm_map_state_drop_aside(const struct gm_state_dir *dir, const char *name,
			    char ret_why[GM_WHY_BYTES]);

/* Remove a map's file, if it has one, on the I/O thread.  Returns as
 * gm_state_dir_remove(). */
int gm_map_state_remove(const struct gm_state_dir *dir, const char *name,
			char ret_why[GM_WHY_BYTES]);

#endif

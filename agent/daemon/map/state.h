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

#include "agent/daemon/base/refusal.h"
#include "agent/daemon/map/state_text.h"
#include "agent/daemon/masks/state.h"
#include "agent/daemon/meshes/state.h"
#include "agent/daemon/state/dir.h"
#include "agent/daemon/state/files.h"

struct gm_daemon;

struct gm_state_files {
	struct gm_state_dir dir;
	struct gm_state_waiting_list maps;   /* files without an object */
	struct gm_state_waiting_list meshes; /* likewise */
	struct gm_state_waiting_list masks;  /* likewise */
	bool rows_came; /* since somebody looked whether they still wait */
};

/* Open the instance's directory.  Returns as gm_state_dir_open(). */
int gm_state_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);
void gm_state_exit(struct gm_daemon *d);

/*
 * gm_state_restore - make the directory say what the files say
 *
 * To be called when rows and holders are known and nobody can ask yet.  A file
 * that makes no sense is put aside; one whose rows are not there, or that has
 * no room, waits for a start that has them, and keeps its name till then.  So
 * does one that the disk does not give out; what the segment has under its name
 * was acknowledged, and stays.  What the segment has and no file, no holder and
 * no configuration knows is taken out.
 *
 * Returns	0; -ENOMEM, and what reading the directory returns, with
 *		ret_why
 */
int gm_state_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

/*
 * gm_state_may_replace - may a uid have this name, which no object has?
 *
 * ret_is_waiting	there is a file that waits under it; may be NULL
 *
 * Returns	0
 *		-EACCES		a file of another uid waits under it
 */
int gm_state_may_replace(const struct gm_daemon *d, const char *name,
			 uint32_t uid, char ret_why[GM_WHY_BYTES],
			 bool *ret_is_waiting);

/* Does a map, mesh or mask that waits name this device? */
bool gm_state_names(const struct gm_daemon *d, const uint8_t uuid[16]);

/*
 * gm_state_rows_came - a row is there that was not: what waits for it?
 *
 * Looks when no change is in the middle of its steps: now, or when
 * gm_state_look() is called after the change.
 */
void gm_state_rows_came(struct gm_daemon *d);
void gm_state_look(struct gm_daemon *d);

/* The file that waited under this name, if any, is no more or another one. */
void gm_state_replaced(struct gm_daemon *d, const char *name);

/*
 * gm_state_name_rows - a map with the uuids of its rows, ready for its file
 *
 * layers	what it points to must live as long as the map is used
 *
 * Returns	0, -ENOMEM
 */
int gm_state_name_rows(const struct gm_daemon *d,
		       const struct gm_layers *layers, uint64_t version,
		       struct gm_state_map *ret_map);

/*
 * gm_state_write - write a map's file;  by the clerk
 *
 * Returns	as gm_state_dir_write(), or -ENOMEM
 */
int gm_state_write(const struct gm_state_dir *dir,
		   const struct gm_state_map *map, char ret_why[GM_WHY_BYTES]);

/*
 * gm_state_set_aside - let a map's file count only until the slot has moved on
 *
 * By the clerk.
 *
 * Returns	as gm_state_dir_set_aside()
 */
int gm_state_set_aside(const struct gm_state_dir *dir, const char *name,
		       char ret_why[GM_WHY_BYTES], bool *ret_is_there);

/* Remove what was set aside; by the clerk.  Returns as
 * gm_state_dir_drop_aside(). */
int gm_state_drop_aside(const struct gm_state_dir *dir, const char *name,
			char ret_why[GM_WHY_BYTES]);

/* Remove a map's file, if it has one; by the clerk.  Returns as
 * gm_state_dir_remove(). */
int gm_state_remove(const struct gm_state_dir *dir, const char *name,
		    char ret_why[GM_WHY_BYTES]);

#endif

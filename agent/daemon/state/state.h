/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state - keep acknowledged objects of every kind in files, and restore them at
 * a start.
 *
 * Each kind (layer maps, meshes, masks) handles its own files: map/state.h,
 * meshes/state.h, masks/state.h.  agent/daemon/subscribers.c has the table of
 * kinds; they are restored in its order.
 */
#ifndef GM_DAEMON_STATE_STATE_H
#define GM_DAEMON_STATE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/state/dir.h"
#include "agent/daemon/state/files.h"

struct gm_daemon;

struct gm_state_files {
	struct gm_state_dir dir;
	struct gm_state_waiting_list maps;   /* files without an object */
	struct gm_state_waiting_list meshes; /* likewise */
	struct gm_state_waiting_list masks;  /* likewise */
};

struct gm_state_kind {
	uint32_t kind; /* GM_KIND_* */

	/* Part of gm_state_restore(). */
	int (*restore)(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

	/* Rows came: publish the objects of files that waited for them. */
	void (*recheck)(struct gm_daemon *d);

	/* Does a waiting object name this device? */
	bool (*names)(const struct gm_daemon *d, const uint8_t uuid[16]);

	/* May a uid take this name, which no object has?  Returns 0, or
	 * -EACCES: a file of another uid waits under it.  ret_is_waiting: a
	 * file waits under it; may be NULL. */
	int (*may_replace)(const struct gm_daemon *d, const char *name,
			   uint32_t uid, char ret_why[GM_WHY_BYTES],
			   bool *ret_is_waiting);

	/* Remove the file; runs on the I/O thread.  NULL: map/transaction.c
	 * does. */
	int (*remove_file)(const struct gm_state_dir *dir, const char *name,
			   char ret_why[GM_WHY_BYTES]);

	/* The file that waited under this name, if any, was removed or
	 * replaced. */
	void (*replaced)(struct gm_daemon *d, const char *name);

	void (*exit)(struct gm_daemon *d);
};

/* Open the instance's directory.  Returns as gm_state_dir_open(). */
int gm_state_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);
void gm_state_exit(struct gm_daemon *d);

/*
 * gm_state_restore - bring the segment's directory into line with the files
 *
 * To be called when rows and holders are known and no client is served yet.
 *
 * - A bad file is renamed to FILE.refused-N.
 * - A file whose rows are missing, or that has no room, waits for a start that
 *   has them, and keeps its name till then.
 * - A file that the disk does not give out waits, too; the segment's object of
 *   its name was acknowledged, and stays.
 * - An object that has no file, no holder and no entry in the configuration is
 *   removed.
 *
 * Returns	0; -ENOMEM, and what reading the directory returns, with
 *		ret_why
 */
int gm_state_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

/* Find the kind GM_KIND_*; NULL where it has no files. */
const struct gm_state_kind *gm_state_kind(const struct gm_daemon *d,
					  uint32_t kind);

/* Rows came: call each kind's recheck().  To be called while no transaction is
 * in the middle of its steps. */
void gm_state_recheck(struct gm_daemon *d);

/* Event; see base/events.h: does a waiting object name the row's device? */
bool gm_state_row_used(const struct gm_daemon *d, uint32_t row);

#endif

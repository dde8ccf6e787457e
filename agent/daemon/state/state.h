/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state - the files of acknowledged objects, of every kind.
 *
 * Each kind (layer maps, meshes, masks) knows its own files: map/state.h,
 * meshes/state.h, masks/state.h.  The table of kinds is
 * agent/daemon/subscribers.c's; they are restored in its order.
 */
#ifndef GM_DAEMON_STATE_STATE_H
#define GM_DAEMON_STATE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/refusal.h"
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

	/* Does an object that waits name this device? */
	bool (*names)(const struct gm_daemon *d, const uint8_t uuid[16]);

	/* May a uid have this name, which no object has?  Returns 0, or
	 * -EACCES: a file of another uid waits under it.  ret_is_waiting: a
	 * file waits under it; may be NULL. */
	int (*may_replace)(const struct gm_daemon *d, const char *name,
			   uint32_t uid, char ret_why[GM_WHY_BYTES],
			   bool *ret_is_waiting);

	/* Remove the file; on the I/O thread.  NULL: map/transaction.c does. */
	int (*remove_file)(const struct gm_state_dir *dir, const char *name,
			   char ret_why[GM_WHY_BYTES]);

	/* The file that waited under this name, if any, is gone or another. */
	void (*replaced)(struct gm_daemon *d, const char *name);

	void (*exit)(struct gm_daemon *d);
};

/* Open the instance's directory.  Returns as gm_state_dir_open(). */
int gm_state_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);
void gm_state_exit(struct gm_daemon *d);

/*
 * gm_state_restore - make the directory say what the files say
 *
 * To be called when rows and holders are known and no client can ask yet.  A
 * file that makes no sense is set aside; one whose rows are not there, or that
 * has no room, waits for a start that has them, and keeps its name till then.
 * So does a file that the disk does not give out; the object that the segment
 * has under its name was acknowledged, and stays.  An object that no file, no
 * holder and no configuration knows is taken out.
 *
 * Returns	0; -ENOMEM, and what reading the directory returns, with
 *		ret_why
 */
int gm_state_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

/* The kind GM_KIND_*, or NULL where it has no files. */
const struct gm_state_kind *gm_state_kind(const struct gm_daemon *d,
					  uint32_t kind);

/* Rows came: each kind's recheck().  To be called while no transaction is in
 * the middle of its steps. */
void gm_state_recheck(struct gm_daemon *d);

/* Event; see base/events.h: does an object that waits name the row's device? */
bool gm_state_row_used(const struct gm_daemon *d, uint32_t row);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state - the truth about acknowledged objects; the segment is its cache.
 *
 * Every object that a client was told is published has a file, but for HELD
 * ones, which end with a process, and those of the configuration.  The file is
 * on the disk before the slot is stored, and off it before the slot is cleared,
 * so whatever an agent dies of, the next one finds out from the files what it
 * has to answer for.
 *
 * Where a HELD object takes a slot over, the file of the one before is set
 * aside (renamed) before the slot is stored, and removed after it.  A file that
 * was set aside counts only while the slot still has that object, or where the
 * segment never had one: then the agent or the machine died in between.  A file
 * that a disk would not let go of does not come back while the segment lasts.
 * A name that no slot has may be that of a file that waits: such a file is
 * removed after the slot is stored, and where it cannot be, the slot is cleared
 * again.
 *
 * Kinds differ by the table entries of struct gm_state_kind and nothing else;
 * agent/daemon/subscribers.c lists them, and they are restored in its order.
 */
#ifndef GM_DAEMON_STATE_STATE_H
#define GM_DAEMON_STATE_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/log.h"
#include "agent/common/refusal.h"
#include "agent/daemon/state/dir.h"
#include "agent/daemon/state/file.h"

struct gm_block;
struct gm_daemon;
struct gm_put;
struct gm_reservation;
struct gm_state_waiting;

/* The numbers of kinds without objects, which have one file each. */
enum {
	GM_STATE_SINGLE = 0x100,
	GM_STATE_CORDONS = GM_STATE_SINGLE,
	GM_STATE_CALIBRATIONS,
	GM_STATE_END
};

/* No entry is NULL but where its comment allows that. */
struct gm_state_kind {
	uint32_t number;    /* GM_KIND_*, or as above */
	uint32_t layout;    /* moves with the words of this kind, alone */
	const char *what;   /* "map": for reasons */
	const char *suffix; /* ".layers"; the name of a single file */

	/* Do the words make sense, with rows below file->n_uuids?  Returns 0,
	 * -EPROTO.  NULL: as those of a segment's block. */
	int (*validate)(const struct gm_state_file *file,
			char ret_why[GM_WHY_BYTES]);

	/* Call @visit for each number of a row in words that are valid. */
	void (*visit_rows)(uint64_t *words,
			   void (*visit)(uint32_t *row, void *arg), void *arg);

	/* Clear the words that are stored after the slot names the block, which
	 * no file has.  May be NULL. */
	void (*clear_moving)(uint64_t *words);

	/* The memory of rows that the object is to have instead of the one in
	 * @slot, or GM_LEDGER_NOBODY; @is_restored: it had it already.  May be
	 * NULL. */
	int (*promise)(const struct gm_daemon *d, const uint64_t *words,
		       uint32_t slot, bool is_restored,
		       char ret_why[GM_WHY_BYTES],
		       struct gm_reservation **ret_reservation);

	/* At a start that finds files; and before an object's file is written,
	 * on the I/O thread.  Either may be NULL. */
	void (*expect)(struct gm_daemon *d);
	int (*before_file)(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

	/* Right before the slot is stored, and after it.  Either may be
	 * NULL. */
	void (*before_show)(struct gm_daemon *d, const struct gm_block *block);
	void (*after_show)(struct gm_daemon *d, const struct gm_put *put,
			   const uint64_t *words, bool is_restored);

	/* For a kind whose objects are made in changes, else NULL: what becomes
	 * of a good file at a start?  Returns whether it is done with; one that
	 * is not waits, and then recheck() is told when rows came. */
	bool (*is_done)(struct gm_daemon *d, struct gm_state_file **file);
	void (*recheck)(struct gm_daemon *d);
};

/* A name that is taken although no object has it, or another object. */
struct gm_state_waiting {
	TAILQ_ENTRY(gm_state_waiting) entry;
	const struct gm_state_kind *kind;
	struct gm_state_file *file; /* NULL: it cannot be read */
	uint32_t uid;
	char name[GM_NAME_BYTES];

	/* These are for kinds whose objects are made in changes. */
	bool is_asked;  /* a change for it is on its way */
	bool is_due;    /* to be looked at */
	bool is_logged; /* that it waits */
};

struct gm_state_files {
	struct gm_state_dir dir;
	struct {
		struct gm_state_file *file; /* as on the disk, or NULL */
		bool is_unread;             /* it cannot be read */
	} singles[GM_STATE_END - GM_STATE_SINGLE];
	TAILQ_HEAD(gm_state_waiting_list, gm_state_waiting) waiting;
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
 * - A file that cannot be read waits, too; the segment's object of its name was
 *   acknowledged, and stays.
 * - An object that has no file, no holder and no entry in the configuration is
 *   removed.
 *
 * Returns	0; -ENOMEM, and what reading the directory returns, with
 *		ret_why
 */
int gm_state_restore(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

/* Find the kind GM_KIND_*; NULL where it has no files. */
const struct gm_state_kind *gm_state_kind(const struct gm_daemon *d,
					  uint32_t number);

/* Rows came: publish the objects of files that waited for them.  To be called
 * while no transaction is in the middle of its steps. */
void gm_state_recheck(struct gm_daemon *d);

/* Event; see base/events.h: does a waiting file name the row's device? */
bool gm_state_row_used(const struct gm_daemon *d, uint32_t row);

/* The file that waits under a name, or NULL. */
struct gm_state_waiting *gm_state_find(const struct gm_daemon *d,
				       const struct gm_state_kind *kind,
				       const char *name);

/*
 * gm_state_may_replace - may a uid have this name, which no object has?
 *
 * Returns	0
 *		-EACCES		a file of another uid waits under it
 */
int gm_state_may_replace(const struct gm_daemon *d,
			 const struct gm_state_kind *kind, const char *name,
			 uint32_t uid, char ret_why[GM_WHY_BYTES]);

/* The file that waited under this name, if any, is no more or another one. */
void gm_state_replaced(struct gm_daemon *d, const struct gm_state_kind *kind,
		       const char *name);

/* The path of a file, for the log. */
struct gm_quoted gm_state_path(const struct gm_daemon *d, const char *file);

/* Is it the file's fault?  Nothing that only this start lacks makes a file a
 * bad one. */
bool gm_state_is_bad(int error);

/* Put a bad file aside, and say so. */
void gm_state_refuse(const struct gm_daemon *d, const char *file,
		     const char *why);

/*
 * gm_state_load - read the file of a kind without objects, at the start
 *
 * without	how the agent goes on without the file, for the log
 *
 * A bad file is put aside.  One that cannot be read is logged, and stays.
 */
void gm_state_load(struct gm_daemon *d, const struct gm_state_kind *kind,
		   const char *without);

/* The file of such a kind, or NULL: there is none. */
const struct gm_state_file *gm_state_single(const struct gm_daemon *d,
					    const struct gm_state_kind *kind);

/* May such a file be written?  Returns 0, or -EIO: it was not read, and would
 * be lost.  Then: it has been, and is ours. */
int gm_state_may_write(const struct gm_daemon *d,
		       const struct gm_state_kind *kind,
		       char ret_why[GM_WHY_BYTES]);
void gm_state_written(struct gm_daemon *d, const struct gm_state_kind *kind,
		      struct gm_state_file *file);

#endif

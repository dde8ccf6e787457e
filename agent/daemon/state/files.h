/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * files - what state files have in common: names that only a file has, what
 * becomes of a file at a start, and files that belong to no object.
 */
#ifndef GM_DAEMON_STATE_FILES_H
#define GM_DAEMON_STATE_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#include "agent/common/log.h"
#include "agent/common/refusal.h"
#include "shm/layout.h"

struct gm_daemon;
struct gm_state_dir;

/* A name that is taken although no object has it: the head of what would have
 * it. */
struct gm_state_waiting {
	TAILQ_ENTRY(gm_state_waiting) entry;
	uint32_t uid;
	bool is_unread; /* the disk keeps its file from us */
	char name[GM_NAME_BYTES];
};

/* The state files of objects of one kind. */
TAILQ_HEAD(gm_state_waiting_list, gm_state_waiting);

/* @waiting is zero but for what follows it. */
void gm_state_waiting_add(struct gm_state_waiting_list *list,
			  struct gm_state_waiting *waiting, const char *name,
			  uint32_t uid);
struct gm_state_waiting *
gm_state_waiting_find(const struct gm_state_waiting_list *list,
		      const char *name);

/*
 * gm_state_waiting_may_replace - as gm_map_state_may_replace()
 *
 * what		the kind, for the reason: "map", "mesh" or "mask"
 */
int gm_state_waiting_may_replace(const struct gm_state_waiting_list *list,
				 const char *what, const char *name,
				 uint32_t uid, char ret_why[GM_WHY_BYTES],
				 bool *ret_is_waiting);

/* The path of a file, for the log. */
struct gm_quoted gm_state_files_path(const struct gm_daemon *d,
				     const char *file);

/* Is it the file's fault?  Nothing that only this start lacks makes a file a
 * bad one. */
bool gm_state_files_is_bad(int error);

/* Put a bad file aside, and say so. */
void gm_state_files_refuse(const struct gm_daemon *d, const char *file,
			   const char *why);

/*
 * gm_state_files_read - read a file that belongs to no object, at the start
 *
 * parse	the file's text to ret_what; returns 0, or a negative errno with
 *		the reason
 * without	how the agent goes on without the file, for the log
 * ret_unread	the disk does not give the file out, which is logged, and the
 *		file stays
 *
 * A bad file is put aside.
 *
 * Returns	whether ret_what has what the file says
 */
bool gm_state_files_read(const struct gm_daemon *d, const char *file,
			 int (*parse)(const char *text, size_t bytes,
				      void *ret_what, char *ret_why),
			 const char *without, void *ret_what, bool *ret_unread);

/* Say why an unread file is not written: it would be lost.  Returns -EIO. */
int gm_state_files_keep(const struct gm_daemon *d, const char *file,
			char ret_why[GM_WHY_BYTES]);

/*
 * gm_state_files_write - write a file that belongs to no object
 *
 * print	writes the body
 *
 * Returns	as gm_state_dir_write(), or -ENOMEM
 */
int gm_state_files_write(const struct gm_state_dir *dir, const char *file,
			 void (*print)(FILE *to, const void *what),
			 const void *what, char ret_why[GM_WHY_BYTES]);

/* Remove the objects of a kind that have no file from the directory: an agent
 * died before it had told a client of them, or after it had forgotten them.
 *
 * keep		those that stay, by their places in the directory */
void gm_state_files_drop_unknown(struct gm_daemon *d, uint32_t kind,
				 const bool *keep);

#endif

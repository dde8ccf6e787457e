/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * dir - the directory of an instance's state files.
 *
 * A file is written under another name, synced, renamed, and the directory
 * synced: when that has been done it survives the loss of power, and before
 * that the file of before is there, whole.  A step that fails is taken back.
 *
 *	NAME.layers, NAME.mesh, NAME.mask
 *				a file of an object, see file.h
 *	cordons, calibrations	the file of a kind without objects, likewise
 *	epochs			see meshes/epochs.h
 *	FILE.refused-N		one that an agent would not read, for a person
 *	NAME.layers.replaced	one whose map gives way to a held one
 *	new			one that is being written
 *	old			one that is being replaced or removed
 *	cuda-cache, opencl-cache, vulkan-cache
 *				folders of the workers, see
 *				gm_state_dir_of_workers()
 *
 * The agent that runs holds a lock on the directory itself, which needs no
 * room on the disk and no right to write to it.
 *
 * Threads	writing: one at a time; reading: any
 */
#ifndef GM_DAEMON_STATE_DIR_H
#define GM_DAEMON_STATE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/common/refusal.h"
#include "shm/layout.h"

#define GM_STATE_PATH_BYTES 512
#define GM_STATE_BYTES_MAX  (8u << 20) /* of a file; twice what any needs */

/* "NAME.layers", every byte of the name as three. */
#define GM_STATE_NAME_BYTES (3 * GM_NAME_BYTES + 8)

struct gm_state_dir {
	int fd; /* 0: not open */
	char path[GM_STATE_PATH_BYTES];
};

/* A text of up to GM_NAME_BYTES - 1 bytes as a part of a file's name: bytes
 * that such a name should not have are written as %XX. */
void gm_state_dir_escape(const char *text, char ret_text[GM_STATE_NAME_BYTES]);

/*
 * gm_state_dir_open - make the directory if it does not exist, and lock it
 *
 * parent	likewise made, mode 0711; its parents are not
 * ret_why	the error and its remedy
 *
 * Files that a previous agent had not finished are removed; those that it had
 * finished but not synced are synced.
 *
 * Returns	0
 *		-EBUSY		another agent has it
 *		-EPERM		not ours, or writable by others
 *		and the errors of mkdir, open, flock and fsync
 */
int gm_state_dir_open(const char *parent, const char *instance,
		      char ret_why[GM_WHY_BYTES], struct gm_state_dir *ret_dir);
void gm_state_dir_close(struct gm_state_dir *dir);

/*
 * gm_state_dir_of_workers - make a folder in it that workers may write
 *
 * uid, gid	of the workers, who own it; the agent's own where it is not root
 * ret_path	of the folder; no file in it is read by the agent
 *
 * Returns	0, or the errors of mkdir, open and chown
 */
int gm_state_dir_of_workers(const struct gm_state_dir *dir, const char *name,
			    uid_t uid, gid_t gid,
			    char ret_path[GM_STATE_PATH_BYTES]);

/*
 * gm_state_dir_list - the names of all files with a suffix, sorted
 *
 * ret_names	each, and the list, to be freed
 *
 * Returns	how many, or a negative errno
 */
int gm_state_dir_list(const struct gm_state_dir *dir, const char *suffix,
		      char ***ret_names);

/* Likewise of those that were set aside, without ".replaced". */
int gm_state_dir_list_aside(const struct gm_state_dir *dir, const char *suffix,
			    char ***ret_names);

/*
 * gm_state_dir_read - the whole of a file
 *
 * ret_text	to be freed
 *
 * Returns	0
 *		-EPROTO		no regular file, or not ours, or longer than
 *				any is
 *		-ENOENT, -ENOMEM, -EMFILE, -ENFILE
 *		-EIO		whatever else, -EACCES for instance; ret_why has
 *				its words
 */
int gm_state_dir_read(const struct gm_state_dir *dir, const char *file,
		      char ret_why[GM_WHY_BYTES], char **ret_text,
		      size_t *ret_bytes);

/*
 * gm_state_dir_write - make or replace a file, durably
 *
 * Returns	0
 *		-ENOSPC, -EROFS
 *		-EIO		whatever else; ret_why has its words
 */
int gm_state_dir_write(const struct gm_state_dir *dir, const char *file,
		       const char *text, size_t bytes,
		       char ret_why[GM_WHY_BYTES]);

/* Is there a file of this name, or could there be one? */
bool gm_state_dir_has(const struct gm_state_dir *dir, const char *file);

/*
 * gm_state_dir_set_aside - let a file count no longer, durably, but keep it
 *
 * ret_is_there	was there one?
 *
 * Returns	as gm_state_dir_write(): the file counts still then
 */
int gm_state_dir_set_aside(const struct gm_state_dir *dir, const char *file,
			   char ret_why[GM_WHY_BYTES], bool *ret_is_there);

/* Let one that was set aside count again.  Returns as gm_state_dir_write(). */
int gm_state_dir_put_back(const struct gm_state_dir *dir, const char *file,
			  char ret_why[GM_WHY_BYTES]);

/* Remove the file that was set aside, durably.  Returns as
 * gm_state_dir_write(); 0 also when there is none. */
int gm_state_dir_drop_aside(const struct gm_state_dir *dir, const char *file,
			    char ret_why[GM_WHY_BYTES]);

/* Remove a file, durably.  Returns as gm_state_dir_write(); 0 also when there
 * is none. */
int gm_state_dir_remove(const struct gm_state_dir *dir, const char *file,
			char ret_why[GM_WHY_BYTES]);

/* Give a file the name FILE.refused-N, the first that is free.  Returns 0, or a
 * negative errno. */
int gm_state_dir_refuse(const struct gm_state_dir *dir, const char *file);

#endif

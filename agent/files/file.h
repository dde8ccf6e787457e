/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * file - open and read the files of a model or a node, which are untrusted.
 *
 * Symbolic links are followed, because the caches that models are downloaded to
 * consist of them.  Anything but a regular file is refused, and opening never
 * waits for a peer.  A caller that must not reveal files that its client may
 * not read must take that client's rights before the call.
 */
#ifndef GM_FILE_H
#define GM_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/model/plan/error.h"

struct gm_file {
	int fd;
	uint64_t size;    /* bytes, when it was opened */
	const char *path; /* the caller's, for messages */
};

/* The header of a file, in memory. */
struct gm_file_header {
	const char *path; /* for messages */
	const void *bytes;
	size_t n;
	uint64_t rest; /* bytes of the file that follow */
};

/*
 * gm_file_open - open a regular file to read it
 *
 * path		must outlive @ret_file
 * remedy	what to do if there is no such file, or NULL
 * ret_file	give it back with gm_file_close()
 *
 * Returns	0
 *		-ENOENT and what else open() answers
 *		-EINVAL	not a regular file
 * Threads	any
 */
int gm_file_open(const char *path, const char *remedy, struct gm_file *ret_file,
		 struct gm_plan_error *ret_err);

/*
 * gm_file_read - read exactly @n bytes at @offset
 *
 * Returns	0
 *		-ENODATA	the file ends before that
 *		-EIO and what else pread() answers
 * Threads	any
 */
int gm_file_read(const struct gm_file *file, uint64_t offset, void *buf,
		 size_t n, struct gm_plan_error *ret_err);

void gm_file_close(struct gm_file *file);

/*
 * gm_file_text - read a whole file
 *
 * most		bytes it may have
 * ret_bytes	to free(); a NUL stands behind the last
 *
 * Returns	0
 *		-EFBIG	longer than @most
 *		-ENOMEM, and what open and read answer
 * Threads	any
 */
int gm_file_text(const char *path, const char *remedy, size_t most,
		 char **ret_bytes, size_t *ret_n,
		 struct gm_plan_error *ret_err);

#endif

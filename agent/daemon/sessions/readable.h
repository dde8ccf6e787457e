/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * readable - files of clients that workers are to read from.
 *
 * What a client sends may be of a file system that never answers.  Nothing is
 * asked here that such a one could be asked for: the kernel's own words about
 * the descriptor, and what it remembers of the file.  Nor is it mapped, which
 * may wait for reads and writes that others have under way there: whether
 * io_uring reads it right is for the library to find out.
 */
#ifndef GM_DAEMON_SESSIONS_READABLE_H
#define GM_DAEMON_SESSIONS_READABLE_H

#include <stdint.h>

#include "agent/daemon/base/refusal.h"

/* Which file it is, as long as it is open. */
struct gm_readable {
	uint64_t dev;
	uint64_t ino;
};

/*
 * gm_readable_check - may a worker read this file?
 *
 * ret_why	what was wrong and what to do
 *
 * Returns	0
 *		-EINVAL		no regular file and no block device, or one that
 *				the kernel makes up as it is read
 *		-EBADF		the descriptor cannot be read
 */
int gm_readable_check(int fd, struct gm_readable *ret_file,
		      char ret_why[GM_WHY_BYTES]);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * readable - check files of clients that workers are to read from.
 *
 * A client may send a descriptor of a file system that never answers.  These
 * functions make no call that such a file system would have to answer: they use
 * the kernel's own facts about the descriptor, and attributes that it
 * remembers.  They do not map the file, because that may wait for reads and
 * writes of others.  The library finds out whether io_uring reads the file
 * right.
 */
#ifndef GM_DAEMON_SESSIONS_READABLE_H
#define GM_DAEMON_SESSIONS_READABLE_H

#include <stdint.h>

#include "agent/common/refusal.h"

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
int gm_readable_check(int fd, char ret_why[GM_WHY_BYTES]);

#endif

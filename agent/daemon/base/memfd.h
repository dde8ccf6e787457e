/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * memfd - memory that a client sends as a descriptor.
 *
 * A client may send any descriptor at all, of a file system that never answers
 * for instance.  Nothing is asked of it that could wait before it is known to
 * be a memfd, and no call takes the lock of its inode: the client can hold that
 * lock for as long as it likes, by a write() from memory that never arrives.  A
 * memfd of which a client holds a lease is refused, because open() would wait.
 */
#ifndef GM_DAEMON_BASE_MEMFD_H
#define GM_DAEMON_BASE_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"

/*
 * gm_memfd_bytes - the size of a memfd
 *
 * Returns	0
 *		-EINVAL		no memfd, huge pages, a lease, or not readable
 *		-EMFILE		gpumapd has no descriptor left
 */
int gm_memfd_bytes(int fd, uint64_t *ret_bytes, char ret_why[GM_WHY_BYTES]);

/*
 * gm_memfd_check - may a worker map this part of this file?
 *
 * writable	jobs shall write it
 * ret_why	what was wrong and what to do
 *
 * Returns	0
 *		-EINVAL		no memfd, huge pages, a lease, or no whole pages
 *		-EPERM		it could shrink, or cannot be written
 *		-ERANGE		the file does not reach so far
 *		-EMFILE		gpumapd has no descriptor left
 */
int gm_memfd_check(int fd, uint64_t at, uint64_t bytes, bool writable,
		   char ret_why[GM_WHY_BYTES]);

/*
 * gm_memfd_check_fixed - does a memfd stay as it is?
 *
 * A thread may read such a memfd: no client can punch holes into it, and keep
 * the reader waiting for a page.
 *
 * what		"an image": what the reason begins with
 *
 * Returns	0; -EPERM: it could change
 */
int gm_memfd_check_fixed(int fd, const char *what, char ret_why[GM_WHY_BYTES]);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * lock - one agent per instance.
 *
 * A record lock (fcntl F_SETLK) on a file beside the segment: it ends with the
 * process whatever way that ends, a child does not inherit it, and the kernel
 * says which process holds it.  The file is never unlinked: that would let a
 * third agent lock a new one.  The process must never open the file a second
 * time, because closing that descriptor would drop the lock.
 */
#ifndef GM_DAEMON_SEGMENT_LOCK_H
#define GM_DAEMON_SEGMENT_LOCK_H

#include "agent/common/refusal.h"

/*
 * gm_lock_take - lock an instance for as long as the descriptor is open
 *
 * ret_why	what is in the way: a process by its pid, or a file that is not
 *		ours
 *
 * Returns	the descriptor
 *		-EBUSY		another process has it
 *		-EPERM		the file is not ours, or no regular file
 *		-EINVAL		no name for an instance
 *		and what open and fcntl return
 */
int gm_lock_take(const char *instance, char ret_why[GM_WHY_BYTES]);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * session_memory - the memfds of a session: made and sealed here, mapped
 * elsewhere.
 */
#ifndef GM_DAEMON_BASE_SESSION_MEMORY_H
#define GM_DAEMON_BASE_SESSION_MEMORY_H

#include <stdint.h>

/*
 * gm_session_memory_open - a memfd of a final size
 *
 * name		what /proc/PID/maps and /proc/PID/fd show of it
 *
 * Returns	the descriptor, sealed against shrinking and growing and against
 *		other seals; or a negative errno
 */
int gm_session_memory_open(const char *name, uint64_t bytes);

/*
 * gm_session_memory_fill - have pages now, so that no first touch can fail
 *
 * No client has the descriptor yet: a client that has it can hold the lock of
 * the inode for as long as it likes, and nothing ends that wait.
 *
 * node		where to have them from, if there is room; -1: wherever
 *
 * Returns	0
 *		-ENOSPC, -ENOMEM	there is no memory for them
 */
int gm_session_memory_fill(int fd, uint64_t at, uint64_t bytes, int node);

#endif

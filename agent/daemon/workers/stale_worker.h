/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stale_worker - the worker of a dead agent while it holds its row's lock.
 *
 * Such a worker ends by itself, because its socket is closed.  One that cannot
 * end, because a signal has stopped it or a call does not return, would keep
 * the row from every later agent.  The agent cannot wait for it as for a child,
 * so it knows it by the lock that it holds and by its command line.
 */
#ifndef GM_DAEMON_WORKERS_STALE_WORKER_H
#define GM_DAEMON_WORKERS_STALE_WORKER_H

#include <stdint.h>
#include <sys/types.h>

/* The process that holds the lock file of a row; 0 for none, -1 for one that
 * has no pid in our namespace. */
pid_t gm_stale_worker_holder(const char *lock_path);

/*
 * gm_stale_worker_end - send SIGKILL to the worker that holds a row's lock, and
 * log it
 *
 * pid		as gm_stale_worker_holder() said
 *
 * Returns	0, also when it has let go meanwhile
 *		-EPERM		it is no worker of this row, or not ours to kill
 *		-errno		of the kernel
 */
int gm_stale_worker_end(uint32_t row, const char *lock_path, pid_t pid);

/*
 * gm_stale_worker_abandon - let another worker have the row of one that holds
 * its lock, was sent SIGKILL, and does not end
 *
 * Not for a card, whose device the process still has.  Returns 0 or -errno.
 */
int gm_stale_worker_abandon(uint32_t row, const char *lock_path, pid_t pid);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * watchdog - end a worker that makes no progress.
 *
 * A worker leaves signs of life in its journal: the call that each of its
 * threads is in, and a word that changes with each.  A limit counts from the
 * look that found the word first, on the clock of the loop, so that no clock of
 * the worker's matters.  A device may compute for a client as long as it
 * takes: calls that wait for it have no limit meanwhile, and only the
 * administrator's limit ends a worker because of a client's job.  Nor does a
 * limit count while the loop may wait for a lock that the driver holds during a
 * call of another thread; that call has a limit of its own.
 */
#ifndef GM_DAEMON_WORKERS_WATCHDOG_H
#define GM_DAEMON_WORKERS_WATCHDOG_H

#include "agent/daemon/workers/worker_process.h"

/* A worker is about to start: all signs in its journal are older. */
void gm_watchdog_begin(struct gm_worker_process *worker);

/* Look for a worker that makes no progress; to be called once a second, with
 * the loop's time. */
void gm_watchdog_check(struct gm_worker_process *worker, uint64_t now_ns);

#endif

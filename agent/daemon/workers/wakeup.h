/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * wakeup - the descriptors by which workers wake each other.
 *
 * Entries of one row may wait for those of another (see
 * agent/worker/queue/dependency.h).  The eventfd of a row is made on the first
 * request and outlives its workers; no client has it.
 */
#ifndef GM_DAEMON_WORKERS_WAKEUP_H
#define GM_DAEMON_WORKERS_WAKEUP_H

#include "agent/daemon/workers/worker_process.h"

/* Send this worker the eventfd that wakes the worker of @row. */
void gm_wakeup_send(struct gm_worker_process *worker, uint32_t row);

#endif

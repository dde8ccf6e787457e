/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_messages - receive what a row's process says, and hand each record to
 * the module that it is about.
 */
#ifndef GM_DAEMON_WORKERS_WORKER_MESSAGES_H
#define GM_DAEMON_WORKERS_WORKER_MESSAGES_H

#include "agent/daemon/workers/worker_process.h"

/*
 * gm_worker_messages_receive - take the records that have come, some at a time
 *
 * Returns	1 when there may be more, 0 when there are none, -EPIPE once the
 *		process has closed its end
 */
int gm_worker_messages_receive(struct gm_worker_process *worker);

#endif

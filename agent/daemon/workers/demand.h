/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * demand - whether a row is to have a worker, and the end of one that is not.
 *
 * A worker ends when no session has needed it for long, when its device may
 * not be used, or when the agent ends: it finishes its rings first, and lends
 * its memory to other rows that drain.
 */
#ifndef GM_DAEMON_WORKERS_DEMAND_H
#define GM_DAEMON_WORKERS_DEMAND_H

#include "agent/daemon/workers/worker_process.h"

/* worker->idle fired: no session has been attached for long enough. */
void gm_demand_idle(struct gm_timer *timer);

/* Have the worker finish what is in its rings, and exit. */
void gm_demand_end(struct gm_worker_process *worker);

/* The worker should have ended by now: wait longer if it still makes progress,
 * else kill it. */
void gm_demand_overdue(struct gm_worker_process *worker);

/* The worker has finished; other rows that drain may still copy out of its
 * memory. */
void gm_demand_drained(struct gm_worker_process *worker);

/* A worker, or its use of another row, is gone: soon look for workers that are
 * not waited for any more, and for rows that no other worker has open.  NULL is
 * allowed. */
void gm_demand_recheck(struct gm_supervisor *s);

/* supervisor->parting */
void gm_demand_part(struct gm_timer *timer);

/* The row is barred, or a process of it has ended: tell who waits for both. */
void gm_demand_closed(struct gm_daemon *d, uint32_t row);

#endif

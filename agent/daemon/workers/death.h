/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * death - the state, the reason and the log lines of a row whose worker died.
 */
#ifndef GM_DAEMON_WORKERS_DEATH_H
#define GM_DAEMON_WORKERS_DEATH_H

#include "agent/daemon/workers/worker_process.h"

/* Show the row as it is after it, and bar it if its device is lost.  Returns
 * whether it is lost, with the reason that the row shows. */
bool gm_death_show(struct gm_worker_process *worker, const char *why,
		   char ret_reason[GM_WHY_BYTES]);

/* The row's process does not end by SIGKILL. */
void gm_death_stuck(struct gm_worker_process *worker);

/* @well: the worker had been asked to end. */
void gm_death_log(const struct gm_worker_process *worker, bool well,
		  const char *why);

/* The row can be used again: show it as READY, and log how long it was away
 * and why. */
void gm_death_over(struct gm_worker_process *worker);

#endif

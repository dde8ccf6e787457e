/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * exec - start the processes of a row.
 *
 * exec.c has their command lines, and for a CUDA row an environment in which
 * the driver sees one card and no other setting of ours about CUDA.
 */
#ifndef GM_DAEMON_WORKERS_EXEC_H
#define GM_DAEMON_WORKERS_EXEC_H

#include "agent/daemon/workers/worker_process.h"

enum gm_exec_part { GM_EXEC_WORKER, GM_EXEC_STANDBY, GM_EXEC_RECOVERY };

/* Start a process for the row.  Returns as gm_spawn(), or -E2BIG. */
int gm_worker_exec(const struct gm_worker_process *worker,
		   enum gm_exec_part part, struct gm_spawned *ret_child);

/* The time that a process has from its start to READY. */
uint64_t gm_worker_exec_limit(const struct gm_worker_process *worker);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * row_trace - has a row's worker record jobs for one reader (shm/trace.h).
 *
 * The memory is made when a trace begins, and closed when it ends.  A worker
 * that starts meanwhile goes on in it.
 */
#ifndef GM_DAEMON_WORKERS_ROW_TRACE_H
#define GM_DAEMON_WORKERS_ROW_TRACE_H

#include "agent/daemon/workers/worker_process.h"

/*
 * gm_row_trace_begin - begin a trace for @reader, instead of another
 *
 * ret_fd	receives a descriptor of the memory that can only read; the
 *		caller closes it
 *
 * Returns	0, or a negative errno
 */
int gm_row_trace_begin(struct gm_worker_process *worker, const void *reader,
		       int *ret_fd);

/* Does the row have a trace for @reader? */
bool gm_row_trace_has(const struct gm_worker_process *worker,
		      const void *reader);

/* End the trace, if there is one. */
void gm_row_trace_end(struct gm_worker_process *worker);

/* The worker has been started: have it go on with the trace. */
void gm_row_trace_resume(struct gm_worker_process *worker);

#endif

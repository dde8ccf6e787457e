/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * job_trace - turns the recording of jobs on and off, as gpumapd says.
 */
#ifndef GM_WORKER_CONTROL_JOB_TRACE_H
#define GM_WORKER_CONTROL_JOB_TRACE_H

#include "agent/common/wire.h"
#include "agent/worker/queue/job_clock.h"

/* Record jobs in the memory of @fd from now on, as TRACE asks.  Closes @fd.  On
 * a failure the log has the reason, and no job is recorded. */
void gm_job_trace_begin(struct gm_job_clock *clock, const struct gm_wire *wire,
			int fd);

/* Record no more. */
void gm_job_trace_end(struct gm_job_clock *clock);

#endif

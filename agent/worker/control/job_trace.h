/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * job_trace - turns the recording of jobs on and off, as gpumapd says.
 */
#ifndef GM_WORKER_CONTROL_JOB_TRACE_H
#define GM_WORKER_CONTROL_JOB_TRACE_H

#include "agent/worker/queue/job_clock.h"

/* Record jobs in the memory of @fd from now on, and close @fd; -1: record no
 * more.  On a failure the log has the reason, and no job is recorded. */
void gm_job_trace_set(struct gm_job_clock *clock, int fd);

#endif

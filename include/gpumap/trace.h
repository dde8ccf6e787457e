/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/trace.h - record the jobs of rows for some time.
 *
 * While a trace is open the rows' workers write a record of each job into
 * memory that the reader has mapped.  They never wait for it: records that are
 * not read in time are overwritten, and counted as lost.  A row has room for
 * 16384 records.  gpumapctl trace writes them to a file for Perfetto.
 *
 * Only root and the agent's own user may record; they get the jobs of all
 * users.  Jobs that a program of a client does are not recorded (gpumap/map.h
 * has the reason, at struct gpumap_device_jobs).
 */
#ifndef GPUMAP_TRACE_H
#define GPUMAP_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open trace.  Opaque. */
struct gpumap_trace;

/* A job that has ended.  Times are of CLOCK_MONOTONIC, in this process's time
 * namespace. */
struct gpumap_trace_job {
	uint64_t session;    /* as gpumap_session_list() numbers it */
	uint64_t read_ns;    /* the worker had read the job's entry */
	uint64_t started_ns; /* the device began: its first part, if it has
			      * several */
	uint64_t ended_ns;
	uint64_t n; /* elements */
	uint32_t row;
	uint32_t uid;   /* of the session */
	int32_t status; /* 0 or a negative errno */
	uint32_t op;    /* enum gpumap_op */
	uint32_t dtype; /* enum gpumap_dtype */
	uint32_t reserved;
};

/*
 * gpumap_trace_open - begin to record
 *
 * rows		the rows to record, each once; NULL: all that have a worker
 * n		how many; 0 with NULL
 *
 * Returns	0
 *		-EPERM		only root and the agent's own user may
 *		-EBUSY		another process has a trace of a row
 *		-ENODEV		a row does not exist or has no worker, or none
 *				has
 *		-EOPNOTSUPP	the agent is of an earlier version
 *		and the errors of a request; gpumap_refusal() says more
 * Cost		a connection to the agent, and a round trip and 1 MiB of the
 *		agent's memory for each row.  Jobs of a recorded row take the
 *		time of two or three more readings of the clock
 * Threads	any
 */
GPUMAP_API int gpumap_trace_open(struct gpumap *map, const uint32_t *rows,
				 uint32_t n, struct gpumap_trace **ret_trace);

/*
 * gpumap_trace_read - take records
 *
 * Records of one row come in the order in which its jobs ended; those of
 * different rows in any.  Does not wait: call again after a while.
 *
 * ret_jobs	receives up to @n records
 * ret_lost	receives how many more were lost since the last call; may be
 *		NULL
 *
 * Returns	how many were taken
 *		-ECONNRESET	there are no more, and no more come: the agent
 *				has ended
 * Cost		a pass over the records; one system call when there are none
 * Threads	one at a time for each trace
 */
GPUMAP_API int gpumap_trace_read(struct gpumap_trace *trace,
				 struct gpumap_trace_job *ret_jobs, uint32_t n,
				 uint64_t *ret_lost);

/*
 * gpumap_trace_close - end the recording, before gpumap_detach()
 *
 * trace	NULL does nothing
 *
 * Cost		a few system calls that do not wait
 * Threads	any, in turn
 */
GPUMAP_API void gpumap_trace_close(struct gpumap_trace *trace);

#ifdef __cplusplus
}
#endif
#endif

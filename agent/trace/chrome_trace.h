/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * chrome_trace - write jobs in the JSON form of Chrome's traces, which Perfetto
 * and chrome://tracing open.
 *
 * A row is a process there, a session a thread of it.  Viewers want the slices
 * of a thread to be apart or one within the other, so jobs of a session that
 * overlap otherwise go to further threads, its lanes.  A job's slice is from
 * when its device began until it ended.
 *
 * The document is whole after each call of gm_chrome_trace_end() alone; viewers
 * also open one that was cut off.
 */
#ifndef GM_CHROME_TRACE_H
#define GM_CHROME_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "gpumap.h"

struct gm_chrome_trace;

/* Begin a document; times in it are from @since_ns on.  NULL: no memory. */
struct gm_chrome_trace *gm_chrome_trace_begin(FILE *to, uint64_t since_ns);

/* Write a job.  @op, @dtype: their names.  Returns 0 or -ENOMEM. */
int gm_chrome_trace_job(struct gm_chrome_trace *trace,
			const struct gpumap_trace_job *job, const char *op,
			const char *dtype);

/*
 * Name the rows and sessions whose jobs were written.
 *
 * row		writes the name of a row
 * session	writes the name of a session of @uid
 */
struct gm_chrome_names {
	void (*row)(void *of, uint32_t row, char *ret_name, size_t bytes);
	void (*session)(void *of, uint64_t session, uint32_t uid,
			char *ret_name, size_t bytes);
	void *of;
};

/* The document has these, too. */
struct gm_chrome_totals {
	uint64_t jobs;
	uint64_t lost;
};

/* Write the names and the end, and free @trace.  The caller asks the file for
 * errors. */
void gm_chrome_trace_end(struct gm_chrome_trace *trace,
			 const struct gm_chrome_names *names,
			 const struct gm_chrome_totals *totals);

#endif

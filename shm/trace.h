/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * trace - a ring of records about the jobs of one row.
 *
 * gpumapd makes it, a memfd of GM_TRACE_BYTES, when a client asks for a trace.
 * The row's worker writes it while the trace is on; the client maps it
 * read-only.  The writer never waits: it overwrites records that the client has
 * not read, and the client counts them as lost.
 *
 *	0			struct gm_trace
 *	GM_TRACE_RECORDS_AT	GM_TRACE_RECORDS records of GM_TRACE_WORDS words
 *
 * The record of position p is at p % GM_TRACE_RECORDS.  The next worker of the
 * row goes on where the last one stopped.
 *
 * Edges
 *
 *   TRACE.put    a record's words are stored before the number that says that
 *                it is there.
 *   TRACE.reuse  the writer stores the position that it begins before the words
 *                of that record, each with release.  A reader that loads, with
 *                acquire, a word of a later record sees that position
 *                afterwards, and drops what it read.
 */
#ifndef GM_TRACE_H
#define GM_TRACE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/atomic.h"

#define GM_TRACE_WORDS      8u
#define GM_TRACE_RECORDS    16384u
#define GM_TRACE_RECORDS_AT 4096u
#define GM_TRACE_BYTES \
	(GM_TRACE_RECORDS_AT + GM_TRACE_RECORDS * GM_TRACE_WORDS * 8u)

/* In shared memory.  Written by the worker. */
struct gm_trace {
	alignas(GM_LINE) gm_a64 begun; /* positions that were begun to write */
	gm_a64 written;                /* positions whose records are whole */
};

/* A job.  Times are of the node's clock, see timens.h. */
struct gm_trace_record {
	uint64_t session;
	uint64_t read_ns;    /* the worker had read its entry */
	uint64_t started_ns; /* the device was given its first part */
	uint64_t ended_ns;
	uint64_t n; /* elements */
	uint32_t uid;
	int32_t status;
	uint8_t op;
	uint8_t dtype;
	uint8_t reserved[6];
	uint64_t spare;
};

_Static_assert(sizeof(struct gm_trace) <= GM_TRACE_RECORDS_AT, "layout");
_Static_assert(sizeof(struct gm_trace_record) == 8 * GM_TRACE_WORDS, "layout");

/* Writer: add a record. */
void gm_trace_put(struct gm_trace *trace, const struct gm_trace_record *record);

/*
 * gm_trace_get - take the records from a position on
 *
 * pos		the first position to take; moves behind those taken and lost
 * ret_records	receives up to @n of them
 * ret_lost	receives how many were overwritten before they could be taken
 *
 * Returns	how many were taken
 */
uint32_t gm_trace_get(const struct gm_trace *trace, uint64_t *pos,
		      struct gm_trace_record *ret_records, uint32_t n,
		      uint64_t *ret_lost);

#endif

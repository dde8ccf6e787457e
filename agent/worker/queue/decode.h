/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * decode - what a client wrote into an entry, and what becomes of it.
 *
 * Judged is a private copy, so what was found true stays true.  An entry that
 * no library of ours would write (an unknown operation, a flag or a reserved
 * bit that is set, a second slot that is none) ends the session.  Everything
 * else that is wrong ends the entry alone.  Arguments that an operation does
 * not have are not looked at.
 *
 * Memory is named by an offset, in the arena or in a buffer that the session's
 * table has.  It becomes a pointer where the worker has it mapped, an address
 * where the device reaches it, both where both are so, and neither where it is
 * another row's and borrowed.
 *
 * Pure: no memory but its arguments is touched, the arena least of all.
 */
#ifndef GM_WORKER_QUEUE_DECODE_H
#define GM_WORKER_QUEUE_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/comm/comm.h"
#include "agent/device/task.h"
#include "agent/worker/memory/buffers.h"
#include "shm/queue.h"

/* What the entries of one queue may name. */
struct gm_judge {
	char *arena; /* where it is mapped; all ranges of it may be named */
	uint64_t arena_bytes;
	uint32_t incarnation;                  /* of the queue */
	uint32_t row;                          /* of the worker */
	const struct gm_buffer_table *buffers; /* NULL: there are none */
	/* The parts of the arena that the device reaches, as many bytes each;
	 * NULL: none of them.  An entry for one that it does not is NULL. */
	struct gm_region *const *reached;
	uint64_t reached_each;
};

struct gm_decoded_entry {
	struct gm_task task; /* to run; set when 0 was returned */
	uint64_t bytes;      /* that it counts for; 0: nothing to run */
	uint32_t each;       /* of them, those of an element */
	/* A handle; 0 unless task.op is ALLOC, FREE, LOAD, or a COPY whose
	 * source is to be had by way of our stage.  Of a collective the group's
	 * number, whatever was returned. */
	uint64_t buffer;
	uint64_t at;    /* in its file or in the source; where to is task's */
	uint32_t flags; /* ALLOC, whose bytes are task.n: GPUMAP_BUFFER_* */
	uint64_t deadline_ns; /* 0: none */
	uint32_t n_waits;
	uint64_t wait[GM_WAITS_MAX]; /* places in time, see queue.h */
	/* RUN of a shared object: what to run; NULL for others, and for no
	 * items.  Device code is task.kernel, and run as any task. */
	const struct gm_program *program;
	struct gm_comm_ask ask; /* of a collective, not judged */
	const char *why;        /* set when -EPROTO was returned; constant */
};

/* A NOP as the library writes it, the one entry worth a short cut: no flag, no
 * dtype, nothing reserved, of this incarnation. */
static inline bool gm_judge_plain(const struct gm_judge *judge,
				  const uint64_t words[GM_ENTRY_WORDS])
{
	return words[0] >> 32 == 0 && words[1] == judge->incarnation &&
	       (words[6] | words[7]) == 0;
}

/*
 * gm_judge_entry - decide over one entry
 *
 * words	a private copy of its slot; the lower half of the first is not
 *		looked at
 * more		likewise of the slot behind it; NULL where nothing is in there,
 *		and of no account without GM_ENTRY_MORE
 *
 * Returns	0		run ret_verdict->task, if it has bytes
 *		-EPROTO		the session ends, ret_verdict->why says why
 *		-EIO		made for a worker that has died since
 *		-EINVAL		the dtype does not go with the operation, an
 *				offset is not aligned to the element, source and
 *				destination overlap where they must not, a
 *				buffer is asked for that cannot be, or a file is
 *				named where memory is to be, or memory for one
 *		-ERANGE		it reaches out of the arena, out of a buffer, or
 *				out of what a file can have
 *		-ESTALE		no buffer of this session has that handle
 *		-EACCES		it would write what may only be read
 *		-EOPNOTSUPP	it would compute with a buffer of another row,
 *				which can only be copied from
 */
int gm_judge_entry(const struct gm_judge *judge,
		   const uint64_t words[GM_ENTRY_WORDS], const uint64_t *more,
		   struct gm_decoded_entry *ret_verdict);

/* What a collective names, where it is mapped; NULL: nowhere, or it may not be
 * written and @writes. */
void *gm_judge_memory(const struct gm_judge *judge, uint64_t buffer,
		      uint64_t at, uint64_t bytes, bool writes);

/*
 * gm_judge_where - the same of memory that others need not have mapped
 *
 * ret_at	where it is mapped, or NULL: then
 * ret_address	is where the device has it
 *
 * Returns	whether there is such
 */
bool gm_judge_where(const struct gm_judge *judge, uint64_t buffer, uint64_t at,
		    uint64_t bytes, bool writes, char **ret_at,
		    uint64_t *ret_address);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * decode - decodes an entry that a client wrote, and validates it.
 *
 * The decoder gets a private copy, so a value that was validated cannot change
 * afterwards.  An entry that the library never writes (an unknown operation, a
 * flag or a reserved bit that is set, an invalid second slot) ends the session.
 * Any other error ends the entry only.  Arguments that an operation does not
 * have are ignored.
 *
 * An entry names memory by an offset in the arena or in a buffer of the
 * session's table.  The offset becomes a pointer if the worker has the memory
 * mapped, a device address if the device has it mapped, both if both have, and
 * neither if the memory is another row's and borrowed.
 *
 * The functions are pure: they access their arguments only, and never the
 * arena.
 */
#ifndef GM_WORKER_QUEUE_DECODE_H
#define GM_WORKER_QUEUE_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/comm/comm.h"
#include "agent/device/task.h"
#include "agent/worker/memory/buffers.h"
#include "shm/queue.h"

/* The memory that the entries of one queue may name. */
struct gm_decoder {
	/* Mapping of the arena; entries may name all of its ranges. */
	char *arena;
	uint64_t arena_bytes;
	uint32_t incarnation; /* of the queue */
	uint32_t row;         /* of the worker */
	const struct gm_buffer_table
		*buffers; /* NULL: the session has no buffers */
	/* The parts of the arena that the device has mapped, reached_each bytes
	 * each.  NULL: no part can be mapped.  An element is NULL if its part
	 * is not mapped. */
	struct gm_region *const *reached;
	uint64_t reached_each;
};

struct gm_decoded_entry {
	struct gm_task task; /* task to run; set if 0 was returned */
	uint64_t bytes;      /* bytes accounted; 0: nothing to run */
	uint32_t each;       /* bytes accounted per element */
	/* A handle for ALLOC, FREE, LOAD, and a COPY whose source is reached
	 * through the bounce buffer; otherwise 0.  For a collective the number
	 * of the group, whatever was returned. */
	uint64_t buffer;
	/* Offset in the file or the source; the task has the destination. */
	uint64_t at;
	uint32_t flags;       /* ALLOC: GPUMAP_BUFFER_*; task.n has the bytes */
	uint64_t deadline_ns; /* 0: none */
	uint32_t n_waits;
	uint64_t wait[GM_WAITS_MAX]; /* timeline values, see queue.h */
	/* Program to run, for a RUN of a shared object.  NULL for other
	 * operations and for zero items.  Device code is task.kernel, and runs
	 * like any task. */
	const struct gm_program *program;
	struct gm_comm_ask ask; /* of a collective, not validated */
	const char *why;        /* set if -EPROTO was returned; constant text */
};

/* Is the entry a NOP as the library writes it: no flag, no dtype, no reserved
 * bits, and this incarnation?  Only this entry has a shortcut. */
static inline bool gm_decode_is_plain(const struct gm_decoder *decoder,
				      const uint64_t words[GM_ENTRY_WORDS])
{
	return words[0] >> 32 == 0 && words[1] == decoder->incarnation &&
	       (words[6] | words[7]) == 0;
}

/* The elements of a job, also of a collective. */
static inline uint64_t gm_decode_elements(const struct gm_decoded_entry *entry)
{
	return gm_ops_is_collective(entry->task.op) ? entry->ask.n
						    : entry->task.n;
}

/*
 * gm_decode_entry - decode and validate one entry
 *
 * words	a private copy of its slot; the lower half of the first word is
 *		ignored
 * more		likewise of the next slot; NULL if that slot is not filled;
 *		ignored without GM_ENTRY_MORE
 *
 * Returns	0		run ret_verdict->task, if it has bytes
 *		-EPROTO		the session ends, ret_verdict->why has the cause
 *		-EIO		made for a worker that has died since
 *		-EINVAL		the dtype does not go with the operation, an
 *				offset is not aligned to the element, source and
 *				destination overlap where they must not, the
 *				arguments of a buffer are invalid, or a file is
 *				named in place of memory, or memory in place of
 *				a file
 *		-ERANGE		it reaches out of the arena, out of a buffer, or
 *				out of what a file can have
 *		-ESTALE		no buffer of this session has that handle
 *		-EACCES		it would write read-only memory
 *		-EOPNOTSUPP	it would compute with a buffer of another row,
 *				which can only be copied from
 */
int gm_decode_entry(const struct gm_decoder *decoder,
		    const uint64_t words[GM_ENTRY_WORDS], const uint64_t *more,
		    struct gm_decoded_entry *ret_verdict);

/* Mapping of memory that a collective names.  NULL: the memory is not mapped,
 * or @writes is set and it must not be written. */
void *gm_decode_memory(const struct gm_decoder *decoder, uint64_t buffer,
		       uint64_t at, uint64_t bytes, bool writes);

/*
 * gm_decode_place - find a collective's memory, mapped or at the device
 *
 * ret_at	receives its mapping, or NULL if only the device has it
 * ret_address	receives its device address
 *
 * Returns	whether the worker or the device can access it
 */
bool gm_decode_place(const struct gm_decoder *decoder,
		     struct gm_comm_place what, uint64_t bytes, bool writes,
		     char **ret_at, uint64_t *ret_address);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * queue - lay out the memory of a session: a page of the client, a queue pair
 * for each row.
 *
 * The agent makes two memfds for each session, sealed against shrinking and
 * growing, and never maps them.  This is the first; the other is the payload
 * arena, plain bytes with one range for each row.
 *
 *	0			struct gm_client
 *	gm_queue_at(row, depth)	struct gm_queue, entries, completions
 *
 * The client maps all of it, a worker maps the first page and the queue of its
 * own row; it reads the timelines of the session's other queues.  Every cache
 * line has one writer by the protocol, named below; a worker validates
 * everything that a client can write.
 *
 * An entry is eight words:
 *
 *	0  sequence:32  op:8  flags:8  dtype:8  to:8
 *	1  incarnation:32  reserved:32
 *	2  destination: offset in its buffer
 *	3  source: offset in its buffer
 *	4  elements; ALLOC: bytes
 *	5  alpha (a double's bits), fill pattern, GPUMAP_BUFFER_* of ALLOC,
 *	   elements of a mask:32  the one that is first:32, or of RUN
 *	   bytes of an item of the source:32  of the destination:32; of
 *	   collectives the group's number:32  root or peer:32
 *	6  the destination's buffer: its handle, 0 for the arena
 *	7  the source's buffer: its handle, 0 for the arena
 *
 * RUN has n items, and always a second slot.
 *
 * `to` is the dtype of CAST's destination, and 0 in every other operation but
 * collectives, where it is enum gpumap_reduce.  For a collective the
 * destination receives the result of the row's rank, and the source is what the
 * rank contributes, both on this row.
 *
 * ALLOC and FREE have one more argument, the buffer of word 6: the handle that
 * it will have, or has.
 *
 * Bit 1 of its flags, GM_ENTRY_CANCELLED, says that the entry must not begin.
 * The client sets it in the slot of an entry that it has submitted, with the
 * rest of the word as it is, until it has taken the completion.  An entry that
 * the worker has begun by then ends as if the bit were not set.
 *
 * Bit 0 of its flags, GM_ENTRY_MORE, says that the next position holds the
 * entry's second slot:
 *
 *	0  sequence:32  GM_OP_MORE:8  n_waits:8  reserved:16
 *	1  deadline in ns, see timens.h; 0 for none
 *	2-5  the places in time that it waits for; those behind n_waits
 *	     are 0
 *	6  third operand, a mask: offset in its buffer; of RUN, parameters:
 *	   offset in the arena:48  bytes:16
 *	7  the third operand's buffer: its handle, 0 for the arena; of RUN, the
 *	   program's handle
 *
 * The rings, the journal and the credit treat a second slot as an entry like
 * any other: it takes a position, and ends once, with a completion of its own
 * behind that of the first.  The status of that completion means nothing.  The
 * second slot is published before the first, so a reader that sees the first
 * sees both.
 *
 * A place in time names a row's queue of the session and a number of ended
 * positions.  Entries end in the order in which they came, so the number tells
 * which have ended:
 *
 *	value:40  incarnation:8  lane:8 (0)  row:8
 *
 * The incarnation is the queue's modulo 255, plus 1: the entry waits until that
 * many have ended under it, and ends with -EIO once another incarnation has
 * followed.  Values are compared by their distance, because they wrap.
 *
 * The client makes a handle; it is valid in the client's session only:
 *
 *	generation:32  counts the session's buffers, from a random number on:
 *	               never 0, never used again
 *	kind:2         enum gm_buffer_kind
 *	row:8          the row whose memory it is; 0 if no row's
 *	index:22       in the worker's table, below GM_BUFFERS_MAX
 *
 * A completion is two words:
 *
 *	0  sequence:32  status:32 (0 or a negative errno)
 *	1  position:32 of the entry  reserved:32
 *
 * Edges
 *
 *   QUEUE.born  a new worker stores its timeline before the queue's
 *               incarnation; the client that sees the incarnation, and names it
 *               in a wait, gives that to a worker who then sees that timeline
 *               or a later one.
 */
#ifndef GM_QUEUE_H
#define GM_QUEUE_H

#include <stdalign.h>
#include <stddef.h>

#include "shm/atomic.h"
#include "shm/ring.h"

#define GM_PAGE 4096u

/* In shared memory.  Written by the client, except wake. */
struct gm_client {
	alignas(GM_LINE) gm_a32 parked; /* odd while the client sleeps */
	gm_a32 cpu;                     /* where it last ran, plus 1 */
	gm_a32 by_fd; /* nonzero: a byte on the socket also wakes it */
	gm_a32 reserved;
	alignas(GM_LINE) gm_a32 wake; /* a futex; every waker adds 1 */
	alignas(GM_LINE) gm_a32 unused[GM_LINE / 4]; /* distance to the rings */
};

/* In shared memory.  Written by the worker of the row. */
struct gm_queue {
	alignas(GM_LINE) gm_a32 parked; /* odd while the worker sleeps */
	gm_a32 cpu;                     /* where it last ran, plus 1 */
	gm_a32 incarnation;             /* workers this queue has had, from 1 */
};

/* In shared memory, behind the completions. */
struct gm_timeline {
	/* A place in time, with row 0: the positions of the queue that have
	 * ended.  Incarnation 0: its worker is dead.  Written by the worker, or
	 * by recovery after its death. */
	alignas(GM_LINE) gm_a64 ended;
	/* Bit 32 and a position: entries before it that have not begun end with
	 * -ECANCELED.  0: none.  Written by the client. */
	alignas(GM_LINE) gm_a64 cancel;
};

_Static_assert(sizeof(struct gm_timeline) == 256, "layout");
_Static_assert(sizeof(struct gm_client) <= GM_PAGE, "one page");
_Static_assert(offsetof(struct gm_client, wake) == 128, "layout");
_Static_assert(sizeof(struct gm_queue) == 128, "layout");

#define GM_BUFFERS_MAX 4096u /* of a session, on a row, at once */

enum gm_buffer_kind {
	GM_BUFFER_DEVICE = 0,     /* memory of the row that the handle names */
	GM_BUFFER_REGISTERED = 1, /* a memfd of the client's own, or a mask */
	GM_BUFFER_FILE = 2,       /* a file to read from, no memory */
	GM_BUFFER_PROGRAM = 3     /* a program that RUN runs, no memory */
};

/* Parameters of RUN. */
#define GM_PARAMS_MAX     4096u /* bytes */
#define GM_PARAMS_AT_BITS 48

static inline uint64_t gm_params_make(uint64_t at, uint32_t bytes)
{
	return at | (uint64_t)bytes << GM_PARAMS_AT_BITS;
}

static inline uint64_t gm_params_at(uint64_t word)
{
	return word & ((UINT64_C(1) << GM_PARAMS_AT_BITS) - 1);
}

static inline uint32_t gm_params_bytes(uint64_t word)
{
	return (uint32_t)(word >> GM_PARAMS_AT_BITS);
}

/* Bytes of a file that LOAD can name.  Reads are of whole pages, and their ends
 * must be valid offsets, too. */
#define GM_FILE_BYTES ((uint64_t)INT64_MAX - 65535)

static inline uint64_t gm_handle_make(uint32_t generation, uint32_t kind,
				      uint32_t row, uint32_t index)
{
	return (uint64_t)generation << 32 | (uint64_t)(kind & 3) << 30 |
	       (uint64_t)(row & 0xff) << 22 | (index & 0x3fffff);
}

static inline uint32_t gm_handle_generation(uint64_t handle)
{
	return (uint32_t)(handle >> 32);
}

static inline uint32_t gm_handle_kind(uint64_t handle)
{
	return (uint32_t)(handle >> 30) & 3;
}

static inline uint32_t gm_handle_row(uint64_t handle)
{
	return (uint32_t)(handle >> 22) & 0xff;
}

static inline uint32_t gm_handle_index(uint64_t handle)
{
	return (uint32_t)handle & 0x3fffff;
}

/* An entry in private memory, as the library makes it and the worker validates
 * it; pointers have become offsets. */
struct gm_entry {
	uint8_t op;
	uint8_t flags;
	uint8_t dtype;
	uint8_t to;
	uint32_t incarnation;
	uint64_t dst;
	uint64_t src;
	uint64_t n;
	uint64_t value;
	uint64_t dst_buffer; /* handles */
	uint64_t src_buffer;
	uint32_t zero; /* upper half of word 1 */
};

/* flags of an entry */
#define GM_ENTRY_MORE      1u /* a second slot follows */
#define GM_ENTRY_CANCELLED 2u /* it ends with -ECANCELED unless it has begun */

#define GM_OP_MORE         0xffu /* the op of a second slot */
#define GM_WAITS_MAX       4u

#define GM_TIME_VALUES     (UINT64_C(1) << 40)
#define GM_TIME_DEAD       0u /* in place of an incarnation */

/* The form of a queue's incarnation in a place in time. */
static inline uint32_t gm_time_incarnation(uint32_t incarnation)
{
	return incarnation % 255 + 1;
}

static inline uint64_t gm_time_make(uint32_t row, uint32_t incarnation,
				    uint64_t value)
{
	return (value & (GM_TIME_VALUES - 1)) | (uint64_t)incarnation << 40 |
	       (uint64_t)row << 56;
}

static inline uint32_t gm_time_of_incarnation(uint64_t time)
{
	return (uint32_t)(time >> 40) & 0xff;
}

static inline uint32_t gm_time_lane(uint64_t time)
{
	return (uint32_t)(time >> 48) & 0xff;
}

static inline uint32_t gm_time_row(uint64_t time)
{
	return (uint32_t)(time >> 56);
}

/* Has a queue that is at @now reached @then? */
static inline bool gm_time_reached(uint64_t now, uint64_t then)
{
	return ((now - then) & (GM_TIME_VALUES - 1)) < GM_TIME_VALUES / 2;
}

/* The value nearest to that of @time that ends in this position. */
static inline uint64_t gm_time_widen(uint64_t time, uint32_t position)
{
	int32_t ahead = (int32_t)(position - (uint32_t)time);

	return (time + (uint64_t)(int64_t)ahead) & (GM_TIME_VALUES - 1);
}

/* A second slot in private memory. */
struct gm_more {
	uint8_t op; /* GM_OP_MORE */
	uint8_t n_waits;
	uint16_t zero;
	uint64_t deadline_ns;
	uint64_t wait[GM_WAITS_MAX];
	uint64_t third;
	uint64_t third_buffer; /* handle */
};

/* Bytes of a queue pair of @depth, whole pages. */
static inline uint64_t gm_queue_bytes(uint32_t depth)
{
	uint64_t bytes =
		sizeof(struct gm_queue) +
		(uint64_t)depth * 8 * (GM_ENTRY_WORDS + GM_DONE_WORDS) +
		sizeof(struct gm_timeline);

	return (bytes + GM_PAGE - 1) / GM_PAGE * GM_PAGE;
}

/* Where row @row's queue pair starts, from the start of the memfd. */
static inline uint64_t gm_queue_at(uint32_t row, uint32_t depth)
{
	return GM_PAGE + row * gm_queue_bytes(depth);
}

static inline gm_a64 *gm_queue_entries(struct gm_queue *queue)
{
	return (gm_a64 *)(void *)((char *)queue + sizeof(*queue));
}

static inline gm_a64 *gm_queue_done(struct gm_queue *queue, uint32_t depth)
{
	return gm_queue_entries(queue) + (size_t)depth * GM_ENTRY_WORDS;
}

static inline struct gm_timeline *gm_queue_timeline(struct gm_queue *queue,
						    uint32_t depth)
{
	gm_a64 *end =
		gm_queue_done(queue, depth) + (size_t)depth * GM_DONE_WORDS;

	return (struct gm_timeline *)(void *)end;
}

/* The word that a client stores to cancel the entries before @position. */
static inline uint64_t gm_cancel_make(uint32_t position)
{
	return UINT64_C(1) << 32 | position;
}

/* Does the cancel word reach the entry at @position, in a ring of @depth? */
static inline bool gm_cancel_reaches(uint64_t cancel, uint32_t position,
				     uint32_t depth)
{
	return cancel >> 32 == 1 && (uint32_t)cancel - position - 1 < depth;
}

static inline void gm_entry_pack(const struct gm_entry *entry,
				 uint64_t ret_words[GM_ENTRY_WORDS])
{
	uint32_t what = entry->op | (uint32_t)entry->flags << 8 |
			(uint32_t)entry->dtype << 16 |
			(uint32_t)entry->to << 24;

	ret_words[0] = (uint64_t)what << 32;
	ret_words[1] = entry->incarnation | (uint64_t)entry->zero << 32;
	ret_words[2] = entry->dst;
	ret_words[3] = entry->src;
	ret_words[4] = entry->n;
	ret_words[5] = entry->value;
	ret_words[6] = entry->dst_buffer;
	ret_words[7] = entry->src_buffer;
}

static inline void gm_entry_unpack(const uint64_t words[GM_ENTRY_WORDS],
				   struct gm_entry *ret_entry)
{
	uint32_t what = (uint32_t)(words[0] >> 32);

	ret_entry->op = (uint8_t)what;
	ret_entry->flags = (uint8_t)(what >> 8);
	ret_entry->dtype = (uint8_t)(what >> 16);
	ret_entry->to = (uint8_t)(what >> 24);
	ret_entry->incarnation = (uint32_t)words[1];
	ret_entry->zero = (uint32_t)(words[1] >> 32);
	ret_entry->dst = words[2];
	ret_entry->src = words[3];
	ret_entry->n = words[4];
	ret_entry->value = words[5];
	ret_entry->dst_buffer = words[6];
	ret_entry->src_buffer = words[7];
}

static inline void gm_more_pack(const struct gm_more *more,
				uint64_t ret_words[GM_ENTRY_WORDS])
{
	uint32_t what = more->op | (uint32_t)more->n_waits << 8 |
			(uint32_t)more->zero << 16;

	ret_words[0] = (uint64_t)what << 32;
	ret_words[1] = more->deadline_ns;
	for (uint32_t i = 0; i < GM_WAITS_MAX; i++)
		ret_words[2 + i] = more->wait[i];
	ret_words[6] = more->third;
	ret_words[7] = more->third_buffer;
}

static inline void gm_more_unpack(const uint64_t words[GM_ENTRY_WORDS],
				  struct gm_more *ret_more)
{
	uint32_t what = (uint32_t)(words[0] >> 32);

	ret_more->op = (uint8_t)what;
	ret_more->n_waits = (uint8_t)(what >> 8);
	ret_more->zero = (uint16_t)(what >> 16);
	ret_more->deadline_ns = words[1];
	for (uint32_t i = 0; i < GM_WAITS_MAX; i++)
		ret_more->wait[i] = words[2 + i];
	ret_more->third = words[6];
	ret_more->third_buffer = words[7];
}

/* Does the first word of an entry say that a second slot follows? */
static inline bool gm_entry_has_more(uint64_t word)
{
	return (word >> 40 & GM_ENTRY_MORE) != 0;
}

static inline bool gm_entry_is_cancelled(uint64_t word)
{
	return (word >> 40 & GM_ENTRY_CANCELLED) != 0;
}

/* Client: cancel the entry in a slot, which is filled and not free. */
static inline void gm_entry_cancel(gm_a64 *slot)
{
	gm_put_release(slot, gm_get(slot) | (uint64_t)GM_ENTRY_CANCELLED
						    << 40); /* RING.fill */
}

/* Is the entry the first of two slots? */
static inline bool gm_entry_is_first(uint64_t word)
{
	return gm_entry_has_more(word) && (word >> 32 & 0xff) != GM_OP_MORE;
}

/* Pack a completion: @status travels in the upper half of its first word. */
static inline void gm_done_pack(uint32_t position, int32_t status,
				uint64_t ret_words[GM_DONE_WORDS])
{
	ret_words[0] = (uint64_t)(uint32_t)status << 32;
	ret_words[1] = position;
}

static inline int32_t gm_done_status(const uint64_t words[GM_DONE_WORDS])
{
	return (int32_t)(uint32_t)(words[0] >> 32);
}

static inline uint32_t gm_done_position(const uint64_t words[GM_DONE_WORDS])
{
	return (uint32_t)words[1];
}

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * journal - record which entries a worker has yet to complete, so that recovery
 * can end them after its death.
 *
 * One memfd for each row, shared by gpumapd, the row's worker and, after a
 * death, the recovery process; no client can reach it.  The memfd survives the
 * worker.
 *
 *	0		struct gm_journal: the worker's heartbeat and counters
 *	gm_journal_at(i)	struct gm_journal_queue of session place i
 *
 * A queue's journal is one word per slot of its ring.  The word of position p
 * lives at p % depth and says
 *
 *	bit 63		used
 *	bits 32..62	p, low 31 bits
 *	bit 31		has a completion position
 *	bits 0..30	that position, low 31 bits
 *
 * and next is the completion position after the last one given out.  Words are
 * never cleared: a later position takes the place of an earlier one.
 *
 * The worker's order, for one entry or a batch of them:
 *
 *   1. gm_journal_take() if the entry outlives the turn that read it;
 *   2. gm_journal_give() for each: the word, with its completion position;
 *   3. gm_journal_advance(): next;
 *   4. the completions, in the session's memory (ring.h).
 *
 * An entry that ends in the turn that read it needs no step 1: until step 2 it
 * is still in the ring, where recovery finds it.
 *
 * A worker whose entries end out of order checks the word before it reads an
 * entry: while the word at p % depth is of an entry in flight (taken and not
 * given), it must not read position p or anything behind.  The word of p would
 * replace the only record of the other entry, which would then never end.  The
 * library submits nothing there (a slot whose job is in flight is no credit),
 * but a client may.  Where entries end in order, as in this worker, the entries
 * in flight are the last ones read: stopping while a depth of them is in flight
 * is enough.
 *
 * Recovery (gm_journal_recover()) ends each entry exactly once, and may die
 * itself and be repeated.  Recovery first posts the entries with a completion
 * position there, unless that slot carries its sequence already; then it ends
 * the entries in flight without one; then the entries that are still in the
 * ring.
 * tests/model/journal.pml.
 *
 * Edges
 *
 *   JOURNAL.order  each step above is stored with release and read with acquire
 *                  by the next owner, who starts after the death of the last.
 */
#ifndef GM_JOURNAL_H
#define GM_JOURNAL_H

#include <stdalign.h>

#include "shm/layout.h"
#include "shm/ring.h"

#define GM_JOURNAL_PLACES 1024u /* sessions a worker can serve at once */

/* Groups in which a row's device can have an NCCL communicator at once.  Their
 * memory is charged to no user. */
#define GM_JOURNAL_NCCL_GROUPS 8u

/* The call that a thread of the worker is in.  The watchdog has a limit for
 * each. */
enum gm_worker_call {
	GM_CALL_IDLE = 0, /* asleep, or with nothing to do */
	GM_CALL_LOOP = 1,
	/* a slice of work, run here or handed to the device */
	GM_CALL_DEVICE = 2,
	GM_CALL_OPEN = 3,  /* opening the device, before READY */
	GM_CALL_ALLOC = 4, /* from here on: on the slow thread */
	GM_CALL_FREE = 5,
	GM_CALL_REGISTER = 6, /* a client's memory: populate, pin */
	GM_CALL_FORGET = 7,
	GM_CALL_EXPORT = 8,
	GM_CALL_IMPORT = 9,
	/* a piece of a copy between rows, or a test of one */
	GM_CALL_REMOTE_COPY = 10,
	GM_CALL_PROGRAM = 11,     /* a client's job, on the loop */
	GM_CALL_START = 12,       /* loading a program */
	GM_CALL_ALLOC_LARGE = 13, /* an allocation above GM_ALLOC_LARGE */
	/* initialising NCCL, on a thread of its own */
	GM_CALL_MEET = 14,
	GM_CALL_ABORT = 15,  /* aborting a communicator, on that thread */
	GM_CALL_GIVE_UP = 16 /* giving up an initialisation, likewise */
};

/* Bytes: an allocation up to this size has all its pages within a minute, even
 * on a busy processor. */
#define GM_ALLOC_LARGE (UINT64_C(1) << 30)

/* In shared memory.  Written by the worker. */
struct gm_journal {
	alignas(GM_LINE) gm_a64 beat; /* call:8 | since when, ns */
	gm_a64 completed;             /* jobs of all sessions */
	gm_a64 parks;                 /* times the worker went to sleep */
	gm_a64 wakes;                 /* clients woken by a system call */
	gm_a64 doorbells;             /* doorbells that were answered */
	gm_a64 has_cards; /* 1: by NCCL, all of the node's may be open */
	alignas(GM_LINE) gm_a64 slow; /* beat, of the slow thread */
	/* start of the oldest slice that the device has not ended, in ns; 0:
	 * none */
	gm_a64 in_flight;
	/* beats, of the threads that initialise NCCL */
	gm_a64 clique[GM_JOURNAL_NCCL_GROUPS];
	/* start of the collective that the device does with others, in ns; 0:
	 * none */
	gm_a64 joint;
	/* The registration that the slow thread works on, which may kill the
	 * worker: the place plus 1, or 0 for none, and the handle. */
	gm_a64 slow_place;
	gm_a64 slow_handle;
	/* Since when a thread waits for memory that a session withholds, in ns,
	 * or 0; and the place of the session plus 1. */
	gm_a64 stalled;
	gm_a64 stalled_place;
	/* A thread that ends only with the process, or 0.  Its end shows that
	 * the process was killed, although another thread cannot end. */
	gm_a64 guard;
	gm_a64 unused[GM_LINE / 8 - 8 - GM_JOURNAL_NCCL_GROUPS];
	/* of the completed jobs (agent/worker/queue/job_clock.h) */
	alignas(GM_LINE) gm_a64 failed;
	gm_a64 job_ns;
	gm_a64 job_times[GM_JOB_TIMES];
	gm_a64 loaded_bytes; /* of files, that LOADs have stored */
};

/* In shared memory.  Written by the worker, or by recovery after its death. */
struct gm_journal_queue {
	alignas(GM_LINE) gm_a64 session; /* never reused; 0 while free */
	gm_a64 next;                     /* 32 bits of completion position */
	/* entries that violated the protocol */
	gm_a64 violations;
	gm_a64 bytes; /* of the device's memory that the session has */
	alignas(GM_LINE) gm_a64 word[GM_DEPTH_MAX];
};

_Static_assert(sizeof(struct gm_journal) == 384, "layout");
_Static_assert(sizeof(struct gm_journal_queue) == 128 + 8 * GM_DEPTH_MAX,
	       "layout");

#define GM_JOURNAL_BYTES \
	(4096 + (uint64_t)GM_JOURNAL_PLACES * sizeof(struct gm_journal_queue))

static inline struct gm_journal_queue *gm_journal_at(struct gm_journal *journal,
						     uint32_t place)
{
	char *base = (char *)journal + 4096;

	return (struct gm_journal_queue *)(void *)base + place;
}

static inline uint64_t gm_journal_word(uint32_t pos)
{
	return UINT64_C(1) << 63 | (uint64_t)(pos & 0x7fffffff) << 32;
}

/* Step 1: the entry at @pos has been consumed and will end later. */
static inline void gm_journal_take(struct gm_journal_queue *queue,
				   uint32_t mask, uint32_t pos)
{
	gm_put_release(&queue->word[pos & mask],
		       gm_journal_word(pos)); /* JOURNAL.order */
}

/* Step 2: the entry at @pos ends in completion @done. */
static inline void gm_journal_give(struct gm_journal_queue *queue,
				   uint32_t mask, uint32_t pos, uint32_t done)
{
	gm_put_release(&queue->word[pos & mask],
		       gm_journal_word(pos) | UINT64_C(1) << 31 |
			       (done & 0x7fffffff)); /* JOURNAL.order */
}

/* Step 3: completions before @next have been given out. */
static inline void gm_journal_advance(struct gm_journal_queue *queue,
				      uint32_t next)
{
	gm_put_release(&queue->next, next); /* JOURNAL.order */
}

/* The state of one queue, from a dead worker's journal. */
struct gm_journal_state {
	uint32_t entry; /* next position to consume */
	uint32_t done;  /* next completion position to give out */
};

/* Start the journal of a new session in a place: nothing consumed yet. */
void gm_journal_open(struct gm_journal_queue *queue, uint64_t session);

/* Mark the place free. */
void gm_journal_close(struct gm_journal_queue *queue);

/* Read the positions that the dead owner had reached. */
struct gm_journal_state gm_journal_read(const struct gm_journal_queue *queue,
					uint32_t depth);

/*
 * End all entries that a dead worker had not completed on one queue.  @entries
 * and @done are the ends of the two rings; their positions are set from the
 * journal, and are behind the last entry and completion afterwards.  The status
 * of completions posted here is -EIO, or @status when that is not 0.
 *
 * Returns the number of completions posted.
 */
uint32_t gm_journal_recover(struct gm_journal_queue *queue,
			    struct gm_ring *entries, struct gm_ring *done,
			    int32_t status);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ring - pass entries and completions between one client and the worker of one
 * row.
 *
 * Two rings of the same power-of-two depth lie in the session's memory: entries
 * of eight words from the client, completions of two words from the worker.
 * Both processes can write all of it, either may die between any two
 * instructions, and the worker uses only what it has copied and validated.
 *
 *	            stores                    loads            keeps to itself
 *	producer    its slots                 peer's parked    its position
 *	consumer    parked                    the slots        its position
 *
 * Position p lives in slot p % depth.  The low half of a slot's first word
 * carries the sequence p + 1 once the slot is filled, so the slot itself shows
 * that it is ready, and there is no head or tail that could be false.
 * Positions wrap at 32 bits; slots start at zero, which is no position's
 * sequence before position 2^32 - 1, when the slot has long held another.
 *
 * Credit: the client submits only while submitted - completions taken < depth.
 * An entry is consumed before it completes and everything ends in a completion,
 * so this one rule ensures both that the entry's slot was consumed and that the
 * completion's slot was taken.
 *
 * Edges
 *
 *   RING.fill   a slot's other words are stored before its first; the consumer
 *               that sees the sequence sees them.  A consumer's own stores
 *               after that (a completion, in the other ring) close the circle:
 *               the producer overwrites a slot only after it has taken the
 *               completion of what was there.
 *   RING.wake   the producer stores the first word of its batch, then loads the
 *               sleeper's parked; the sleeper stores parked, then loads the
 *               first word of the slot it waits for.  All four are sequentially
 *               consistent, so one of the two sees the other.
 *
 * A batch is published from its last slot to its first: the sleeper checks its
 * next slot only, so that slot must be the one that carries RING.wake.
 *
 * parked is the sleeper's own counter, odd while it sleeps.  A waker answers
 * each odd value once, and never writes it.  A new owner of the counter (the
 * worker that follows a dead one) goes on from the value it finds to an odd
 * value that no waker has answered yet.
 *
 * This header is also compiled as C++ by the model checker.
 */
#ifndef GM_RING_H
#define GM_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "shm/atomic.h"

#define GM_ENTRY_WORDS 8u
#define GM_DONE_WORDS  2u
#define GM_DEPTH_MIN   16u
#define GM_DEPTH_MAX   1024u

/* One end of one ring, in private memory. */
struct gm_ring {
	gm_a64 *slots; /* depth * words */
	uint32_t mask; /* depth - 1 */
	uint32_t pos;  /* next position of this end */
};

/* The waker's state for one sleeper, in private memory. */
struct gm_waker {
	const gm_a32 *parked;
	uint32_t answered; /* last odd value that was answered */
};

static inline gm_a64 *gm_ring_slot(const struct gm_ring *ring, uint32_t pos,
				   uint32_t words)
{
	return &ring->slots[(size_t)(pos & ring->mask) * words];
}

/* The first word of position @pos, with @what in its upper half. */
static inline uint64_t gm_ring_first(uint32_t pos, uint32_t what)
{
	return (uint64_t)what << 32 | (uint32_t)(pos + 1);
}

/*
 * Producer: fill the slot @ahead places after the ring's position.  Call from
 * the last slot of a batch to the first, and give @ahead 0 last: that store
 * makes the batch visible and is the producer's half of RING.wake.  The lower
 * half of words[0] is ignored, the upper half is passed on.
 */
static inline void gm_ring_put(struct gm_ring *ring, uint32_t words,
			       uint32_t ahead, const uint64_t *entry)
{
	uint32_t pos = ring->pos + ahead;
	gm_a64 *slot = gm_ring_slot(ring, pos, words);
	uint64_t first = gm_ring_first(pos, (uint32_t)(entry[0] >> 32));

	/* gcc would otherwise keep a loop, and for it the entry in memory. */
#pragma GCC unroll 8
	for (uint32_t i = 1; i < words; i++)
		gm_put(&slot[i], entry[i]);
	if (ahead == 0)
		gm_put_ordered(&slot[0], first); /* RING.fill RING.wake */
	else
		gm_put_release(&slot[0], first); /* RING.fill */
}

/* Consumer: is the slot @ahead places after the ring's position ready?  Returns
 * 1 with a copy made once, word by word, or 0.  Leaves the position as it
 * is. */
static inline int gm_ring_peek(const struct gm_ring *ring, uint32_t words,
			       uint32_t ahead, uint64_t *ret_entry)
{
	uint32_t pos = ring->pos + ahead;
	gm_a64 *slot = gm_ring_slot(ring, pos, words);
	uint64_t first = gm_get_acquire(&slot[0]); /* RING.fill */

	if ((uint32_t)first != pos + 1)
		return 0;
	ret_entry[0] = first;
	for (uint32_t i = 1; i < words; i++)
		ret_entry[i] = gm_get(&slot[i]);
	return 1;
}

/* Consumer: the same check at little cost, for a loop that spins. */
static inline bool gm_ring_ready(const struct gm_ring *ring, uint32_t words)
{
	gm_a64 *slot = gm_ring_slot(ring, ring->pos, words);

	return (uint32_t)gm_get(&slot[0]) == ring->pos + 1;
}

/* Sleeper: the last check before sleeping, after gm_ring_park(). */
static inline bool gm_ring_recheck(const struct gm_ring *ring, uint32_t words)
{
	gm_a64 *slot = gm_ring_slot(ring, ring->pos, words);
	uint64_t first = gm_get_ordered(&slot[0]); /* RING.wake */

	return (uint32_t)first == ring->pos + 1;
}

/* Sleeper: announce that it is about to sleep.  @own is the private copy of the
 * counter.  The sleeper must recheck every ring that may wake it afterwards. */
static inline void gm_ring_park(gm_a32 *parked, uint32_t *own)
{
	*own |= 1;
	gm_put_ordered(parked, *own); /* RING.wake */
}

/* Sleeper: announce that it is awake.  If the waker sees that late, it wakes
 * once needlessly. */
static inline void gm_ring_unpark(gm_a32 *parked, uint32_t *own)
{
	*own = (*own | 1) + 1;
	gm_put(parked, *own);
}

/* Sleeper: take over a counter that a dead owner left at any value.  The
 * counter is then parked, at a value that no waker has answered. */
static inline void gm_ring_adopt(gm_a32 *parked, uint32_t *own)
{
	*own = (gm_get(parked) | 1) + 2;
	gm_put_ordered(parked, *own); /* RING.wake */
}

/* Producer: after gm_ring_put() of the first slot: must this producer wake the
 * sleeper now? */
static inline bool gm_ring_must_wake(struct gm_waker *waker)
{
	uint32_t parked = gm_get_ordered(waker->parked); /* RING.wake */

	if ((parked & 1) == 0 || parked == waker->answered)
		return false;
	waker->answered = parked;
	return true;
}

#endif

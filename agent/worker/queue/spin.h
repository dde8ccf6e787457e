/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spin - decides how long the worker polls an empty ring.
 *
 * Polling for less than the gap between two entries costs all of its time and
 * saves nothing.  Polling for twice the gap makes the gap free.  So each queue
 * remembers the gaps that ended while the worker polled, and the worker polls
 * for about twice their average.  A gap that ended after polling is recorded as
 * a miss only.  After GM_SPIN_MISSES misses in a row the worker stops polling.
 * One idle period in GM_SPIN_LEARN it polls for GM_SPIN_CAP_NS, to learn the
 * gaps again.
 *
 * The first part is arithmetic: it reads no clock and only its own memory.
 *
 * Edges
 *
 *   SPIN.count  a worker stores that it spins, then counts all workers that do,
 *               and withdraws when they are too many.  Stores and loads are
 *               sequentially consistent, so of two workers that enter at once
 *               at least one sees both, and the limit holds.
 */
#ifndef GM_WORKER_QUEUE_SPIN_H
#define GM_WORKER_QUEUE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/wire.h"

#define GM_SPIN_CAP_NS   50000u
#define GM_SPIN_FLOOR_NS 10000u /* about what a park and a wake cost */
#define GM_SPIN_LEARN    64u    /* one idle period in so many */
#define GM_SPIN_MISSES   4u     /* in a row: polling does not pay */

/* Gap statistics of one queue.  Initialized with zeroes. */
struct gm_doorbell_spin {
	uint64_t average_ns; /* of gaps that ended during a spin */
	uint32_t periods;    /* idle periods so far */
	/* Consecutive misses up to now, at most GM_SPIN_MISSES. */
	uint32_t misses;
};

/* An idle period begins.  Returns how long to poll, in ns, or 0 to not poll.
 * After a value above 0, end the period with one of the next two functions. */
uint64_t gm_spin_begin(struct gm_doorbell_spin *spin);

/* Work arrived @gap_ns after the period began. */
void gm_spin_hit(struct gm_doorbell_spin *spin, uint64_t gap_ns);

/* The polling time ended without work. */
void gm_spin_miss(struct gm_doorbell_spin *spin);

/* May the worker of @row spin from now on?  Counts the worker in if so. */
bool gm_spin_enter(struct gm_group_page *group_page, uint32_t row);

/* The worker stops spinning.  Allowed if it does not spin. */
void gm_spin_leave(struct gm_group_page *group_page, uint32_t row);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spin - how long an empty ring is worth watching.
 *
 * A spin that is shorter than the gap costs all of its time and saves nothing,
 * one of twice the gap makes the gap free.  So a queue remembers the gaps that
 * ended while it watched, and watches for about twice that.  What it did not
 * see the end of tells it nothing but that: after some misses in a row it
 * stops watching, and every so often it watches for as long as it may, to
 * learn anew.
 *
 * The first part is arithmetic: it reads no clock and no memory but its own.
 *
 * Edges
 *
 *   SPIN.count  a worker stores that it spins, then counts all that do, and
 *               withdraws when they are too many.  Stores and loads are
 *               sequentially consistent, so of two that come at once at least
 *               one sees both, and the limit holds.
 */
#ifndef GM_WORKER_QUEUE_SPIN_H
#define GM_WORKER_QUEUE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/wire.h"

#define GM_SPIN_CAP_NS   50000u
#define GM_SPIN_FLOOR_NS 10000u /* about what a park and a wake cost */
#define GM_SPIN_LEARN    64u    /* one idle period in so many */
#define GM_SPIN_MISSES   4u     /* in a row: it does not pay */

/* One queue's memory.  Starts as zeroes. */
struct gm_doorbell_spin {
	uint64_t average_ns; /* of gaps that ended during a spin */
	uint32_t periods;    /* idle periods so far */
	uint32_t misses;     /* of the last ones, in a row */
};

/* An idle period begins.  Returns how long to watch, in ns, 0 for not at all;
 * end it with one of the two that follow if it was above 0. */
uint64_t gm_spin_begin(struct gm_doorbell_spin *spin);

/* Work came, @gap_ns after the beginning. */
void gm_spin_hit(struct gm_doorbell_spin *spin, uint64_t gap_ns);

/* The time was up. */
void gm_spin_miss(struct gm_doorbell_spin *spin);

/* May the worker of @row spin from now on?  Counts it in if so. */
bool gm_spin_enter(struct gm_group_page *commons, uint32_t row);

/* It spins no longer, or never did. */
void gm_spin_leave(struct gm_group_page *commons, uint32_t row);

#endif

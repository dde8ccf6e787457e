/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * doorbell_limit - ignores the doorbell of a client that rings without need.
 *
 * A correct client rings once each time its queue was parked, with an entry in
 * the ring.  A client may ring more than GM_FLOOD_LIMIT times a second while
 * its ring is empty, or while its session waits for the device or for memory.
 * The worker then ignores its doorbell for a second and polls the ring every
 * GM_FLOOD_LOOK_NS instead.  Polling costs the worker less than the doorbell
 * would, and the client is still served.
 */
#ifndef GM_WORKER_QUEUE_DOORBELL_LIMIT_H
#define GM_WORKER_QUEUE_DOORBELL_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define GM_FLOOD_LIMIT     1000u
#define GM_FLOOD_SECOND_NS UINT64_C(1000000000)
#define GM_FLOOD_LOOK_NS   UINT64_C(1000000)

/* Initialized with zeroes. */
struct gm_flood {
	/* Start of the second that is counted, or of the time in which the
	 * doorbell is ignored. */
	uint64_t since_ns;
	/* Needless rings within that second. */
	uint32_t empty;
	bool muted;
};

/* A doorbell rang without need.  Returns whether to ignore the doorbell from
 * now on. */
static inline bool gm_flood_count(struct gm_flood *flood, uint64_t now_ns)
{
	if (now_ns - flood->since_ns >= GM_FLOOD_SECOND_NS) {
		flood->since_ns = now_ns;
		flood->empty = 0;
	}
	if (++flood->empty <= GM_FLOOD_LIMIT)
		return false;
	*flood = (struct gm_flood){ .since_ns = now_ns, .muted = true };
	return true;
}

/* Has the doorbell been ignored for long enough?  If so, the worker listens to
 * it again. */
static inline bool gm_flood_over(struct gm_flood *flood, uint64_t now_ns)
{
	if (!flood->muted || now_ns - flood->since_ns < GM_FLOOD_SECOND_NS)
		return false;
	*flood = (struct gm_flood){ .since_ns = now_ns };
	return true;
}

#endif

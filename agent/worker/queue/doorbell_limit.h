/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * doorbell_limit - a doorbell that rings for nothing.
 *
 * An honest client rings once for each time that its queue was parked, with
 * something in the ring.  One that rings more than GM_FLOOD_LIMIT times a
 * second with nothing there, or while its session waits for the device or for
 * memory, is not listened to for a second; its ring is looked at every
 * GM_FLOOD_LOOK_NS instead, which costs the worker less than the bells would,
 * and leaves the client a service.
 */
#ifndef GM_WORKER_QUEUE_DOORBELL_LIMIT_H
#define GM_WORKER_QUEUE_DOORBELL_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define GM_FLOOD_LIMIT     1000u
#define GM_FLOOD_SECOND_NS UINT64_C(1000000000)
#define GM_FLOOD_LOOK_NS   UINT64_C(1000000)

/* Starts as zeroes. */
struct gm_flood {
	uint64_t since_ns; /* of the second that is counted, or of deafness */
	uint32_t empty;    /* rings for nothing in it */
	bool deaf;
};

/* A doorbell rang and nothing came of it.  Returns whether to stop listening
 * from now on. */
static inline bool gm_flood_count(struct gm_flood *flood, uint64_t now_ns)
{
	if (now_ns - flood->since_ns >= GM_FLOOD_SECOND_NS) {
		flood->since_ns = now_ns;
		flood->empty = 0;
	}
	if (++flood->empty <= GM_FLOOD_LIMIT)
		return false;
	*flood = (struct gm_flood){ .since_ns = now_ns, .deaf = true };
	return true;
}

/* Has it been deaf long enough?  Then it listens again. */
static inline bool gm_flood_over(struct gm_flood *flood, uint64_t now_ns)
{
	if (!flood->deaf || now_ns - flood->since_ns < GM_FLOOD_SECOND_NS)
		return false;
	*flood = (struct gm_flood){ .since_ns = now_ns };
	return true;
}

#endif

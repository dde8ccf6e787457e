/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * drr - what a session, or a user, has left of its round.
 *
 * Deficit round robin.  In a round each may have GM_ROUND_BYTES of payload and
 * GM_ROUND_ENTRIES entries, in as many turns as that takes; a turn that went
 * beyond is paid back in the next rounds.  A round is over when nobody who has
 * work has anything left of it, so nobody ever waits for one who is idle, and
 * one who comes back from idleness has what the others have and no more.
 *
 * A round has a number, and who is looked at in a new one gets its share then.
 *
 * What is done outside of turns, of collectives, loads and copies between rows,
 * may be large for its round: no debt is more than GM_ROUND_MOST rounds.
 */
#ifndef GM_WORKER_QUEUE_DRR_H
#define GM_WORKER_QUEUE_DRR_H

#include <stdbool.h>
#include <stdint.h>

#define GM_ROUND_BYTES   (INT64_C(1) << 20)
#define GM_ROUND_ENTRIES 256
#define GM_ROUND_MOST    256u /* rounds that debts are paid for at once */

struct gm_deficit {
	int64_t bytes;
	int32_t entries;
	uint32_t round;
};

/* What @rounds shares bring, with nothing saved. */
static inline int64_t gm_deficit_after(int64_t left, uint32_t rounds,
				       int64_t share)
{
	left += (rounds < GM_ROUND_MOST ? rounds : GM_ROUND_MOST) * share;
	return left < share ? left : share;
}

/* Has it anything left in this round? */
static inline bool gm_deficit_left(struct gm_deficit *deficit, uint32_t round)
{
	struct gm_deficit *d = deficit;
	uint32_t rounds = round - d->round;

	if (__builtin_expect(rounds != 0, 0)) {
		d->bytes = gm_deficit_after(d->bytes, rounds, GM_ROUND_BYTES);
		d->entries = (int32_t)gm_deficit_after(d->entries, rounds,
						       GM_ROUND_ENTRIES);
		d->round = round;
	}
	return d->bytes > 0 && d->entries > 0;
}

static inline void gm_deficit_charge(struct gm_deficit *deficit, int64_t bytes,
				     uint32_t entries)
{
	deficit->bytes -= bytes;
	deficit->entries -= (int32_t)entries;
}

/* Debts that are too large to be paid. */
static inline void gm_deficit_forgive(struct gm_deficit *deficit)
{
	const int64_t most = GM_ROUND_MOST * GM_ROUND_BYTES;

	if (deficit->bytes < -most)
		deficit->bytes = -most;
}

#endif

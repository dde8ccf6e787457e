/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * drr - accounts what a session or a user may still do in the current round.
 *
 * Deficit round robin.  In a round each participant may use GM_ROUND_BYTES of
 * payload and GM_ROUND_ENTRIES entries, in as many turns as that takes.  A turn
 * that exceeds this is paid back in the next rounds.  A round is over when no
 * participant with work has credit left.  Participants therefore never wait for
 * an idle one, and a participant that was idle gets the same share as the
 * others and no more.
 *
 * Rounds are numbered.  A participant gets its share of a new round when the
 * scheduler first checks it in that round.
 *
 * Work outside of turns (collectives, loads, copies between rows) may be large
 * compared to a round, so a debt is limited to GM_ROUND_MOST rounds.
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

/* Credit after @rounds more shares.  Unused credit is not saved: the result is
 * at most one share. */
static inline int64_t gm_deficit_after(int64_t left, uint32_t rounds,
				       int64_t share)
{
	left += (rounds < GM_ROUND_MOST ? rounds : GM_ROUND_MOST) * share;
	return left < share ? left : share;
}

/* Is any credit left in this round? */
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

/* Limit a debt to GM_ROUND_MOST rounds. */
static inline void gm_deficit_forgive(struct gm_deficit *deficit)
{
	const int64_t most = GM_ROUND_MOST * GM_ROUND_BYTES;

	if (deficit->bytes < -most)
		deficit->bytes = -most;
}

#endif

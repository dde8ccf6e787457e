/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Ranks and gpumap-syncs of a cohort are killed at any instant, also while the
 * others meet: the living ones are told and meet again, no epoch has two ids,
 * no two epochs have one, and no join outlasts its deadline.
 */

#include "tests/support/dice.h"
#include "tests/system/rendezvous/ranks.h"

#define WORLD 6

static struct ranks ranks;

/* Kill a rank, or two at once, or a gpumap-sync, and start them again. */
static void kill_some(struct place *place, int round)
{
	uint32_t rank = (uint32_t)dice(WORLD);
	int node = (int)dice(PLACE_NODES);

	if (dice(4) == 0) {
		sync_node_kill(&place->nodes[node], SIGKILL);
		story_nap(story_moment(round, 20000));
		sync_node_spawn(&place->nodes[node], &place->where);
		return;
	}
	ranks_kill(&ranks, rank);
	if (dice(2) == 0)
		ranks_start(&ranks, rank);
	if (dice(3) == 0) {
		uint32_t other = (rank + 1) % WORLD;

		ranks_kill(&ranks, other);
		ranks_start(&ranks, other);
	}
	if (ranks.last[rank].epoch == 0 && !story_lives(ranks.pids[rank])) {
		story_nap(story_moment(round, 20000));
		ranks_start(&ranks, rank);
	}
}

static void any_may_die(struct place *place)
{
	int rounds = story_rounds_or(12);
	struct story_times times = { 0 };
	uint64_t epoch = 0;

	ranks_begin(&ranks, place, "killed", WORLD, 5000);
	for (uint32_t i = 0; i < WORLD; i++)
		ranks_start(&ranks, i);
	for (int round = 0; round <= rounds; round++) {
		uint64_t since_ns = story_now();
		uint64_t next = ranks_meet(&ranks, epoch);

		if (!OK(next != 0))
			break;
		story_time(&times, since_ns);
		epoch = next;
		kill_some(place, round);
		/* Now and then while they meet. */
		if (dice(2) == 0) {
			story_nap(story_moment(round, 40000));
			kill_some(place, round);
		}
	}
	story_tell(&times, "until all have met again");
	ranks_end(&ranks);
	EQ(ranks.n_wrong, 0);
	OK(ranks.n_ids > rounds);
}

TAP_CASE()
{
	place_each(any_may_die, SYNC_TTL_MS);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ranks - processes that are ranks of a cohort, and what they say of it.
 *
 * A rank joins, says so, and does so again when the epoch has moved on, also
 * after its gpumap-sync has ended, until it is killed.
 */
#ifndef GM_TEST_RANKS_H
#define GM_TEST_RANKS_H

#include "tests/system/rendezvous/place.h"

#define RANKS_MAX 16

/* A rank has joined, or has not. */
struct ranks_word {
	uint32_t rank;
	int32_t status; /* of the join */
	uint64_t epoch;
	uint64_t late_ms; /* that the join ended after its deadline */
	uint8_t id[GPUMAP_COHORT_ID_BYTES];
};

struct ranks {
	const struct place *place;
	const char *name;
	uint32_t world;
	uint32_t limit_ms; /* of each join */
	pid_t pids[RANKS_MAX];
	int pipe[2];
	/* of each rank */
	struct ranks_word last[RANKS_MAX];
	/* ids that epochs have had */
	struct ranks_word ids[1024];
	int n_ids;
	int n_wrong; /* words that contradict each other */
};

void ranks_begin(struct ranks *ranks, const struct place *place,
		 const char *name, uint32_t world, uint32_t limit_ms);

/* Start a rank on node rank % PLACE_NODES. */
void ranks_start(struct ranks *ranks, uint32_t rank);
void ranks_kill(struct ranks *ranks, uint32_t rank);

/* Take words until all ranks have joined in one epoch that is not @before.
 * Returns it, or 0 after a minute. */
uint64_t ranks_meet(struct ranks *ranks, uint64_t before);

void ranks_end(struct ranks *ranks);

#endif

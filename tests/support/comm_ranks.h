/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * comm_ranks.h - the ranks of a group in one process, and their turns.
 *
 * A place is an address less that of its rank's memory.  Bytes follow this
 * memory that no rank may write.
 */
#ifndef GM_TEST_SUPPORT_COMM_RANKS_H
#define GM_TEST_SUPPORT_COMM_RANKS_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/comm/comm.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define RANKS  8u
#define MARGIN 64u

struct world {
	struct gm_comm_page *page;
	struct gm_comm comm[RANKS];
	struct gm_comm_call call[RANKS];
	struct gm_comm_ask ask[RANKS];
	int end[RANKS]; /* 0 while under way */
	char *memory[RANKS];
	uint64_t bytes; /* of each */
	uint32_t ranks;
	uint64_t spoils; /* bytes of what was given, once a rank has ended */
	bool is_read_only;
};

/* Buffers are named by their rank, plus 1. */
void *reach(void *arg, uint32_t rank, struct gm_comm_place place,
	    uint64_t bytes, bool writes);
void name_buffers(struct gm_comm_ask *ask, uint32_t rank);
void open_world(struct world *w, uint32_t ranks, uint64_t bytes);
void close_world(struct world *w);

/* ---- turns --------------------------------------------------------------- */

/* Begin at every rank of @who, and go on by chance until none can.  Returns how
 * many have not ended. */
uint32_t run(struct world *w, uint32_t who, uint64_t budget);
void ask_all(struct world *w, const struct gm_comm_ask *ask);
bool all_ended(const struct world *w, int with);

/* All ranks but one ask for this, and all end with that. */
void all_but_one(const struct gm_comm_ask *most, const struct gm_comm_ask *one,
		 int end);

#endif

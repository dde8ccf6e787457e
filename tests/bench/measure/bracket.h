/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bracket - measure in rounds between two CPUs, and discard rounds during which
 * their distance changed.
 *
 * On a virtual machine the distance between two CPUs changes from one second to
 * the next.  So the raw ping-pong is measured before and after each round, and
 * a round whose two brackets differ by more than 15 % is discarded and
 * repeated.
 */
#ifndef GM_BRACKET_H
#define GM_BRACKET_H

#include "tests/bench/measure/series.h"

#define GM_BRACKET_SERIES 8

/* The result of one round for one series. */
struct gm_round {
	double value;
	double baseline; /* 0: use the raw round trip around the round */
};

struct gm_bracket {
	int cpu;         /* the other side's; this side is bound already */
	uint32_t rounds; /* wanted; at most three times as many are tried */
	uint32_t n;      /* series that a round fills, 1 to GM_BRACKET_SERIES */
};

/*
 * gm_bracket_run - measure in rounds until enough of them are kept
 *
 * measure	fills one gm_round for each series.  Returns 0, 1 to discard the
 *		round, or a negative errno, which ends the run
 * ret_series	@n of them, to which the rounds are added
 *
 * Returns	0, also when fewer rounds were kept, even none
 *		-ETIMEDOUT	the ping-pong's peer did not run
 *		and the errors of measure()
 */
int gm_bracket_run(const struct gm_bracket *bracket,
		   int (*measure)(void *arg, struct gm_round *ret_rounds),
		   void *arg, struct gm_series *ret_series);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bracket - round trips between two CPUs that may move under the measurement.
 *
 * On a virtual machine the distance between two CPUs changes from one second to
 * the next.  So the raw ping-pong is taken before and after each round, and a
 * round whose two brackets differ by more than 15 % is thrown away and tried
 * again.
 */
#ifndef GM_BRACKET_H
#define GM_BRACKET_H

#include "agent/bench/series.h"

#define GM_BRACKET_SERIES 8

/* What one round gave for one series. */
struct gm_round {
	double value;
	double baseline; /* 0: the raw round trip around it */
};

struct gm_bracket {
	int cpu;         /* of the other side; this side is bound already */
	uint32_t rounds; /* wanted; at most three times as many are tried */
	uint32_t n;      /* series that a round fills, 1 to GM_BRACKET_SERIES */
};

/*
 * gm_bracket_run - measure in rounds until enough of them can be kept
 *
 * measure	fills one gm_round per series.  Returns 0, 1 to have the round
 *		thrown away, or a negative errno, which ends the run
 * ret_series	@n of them, added to
 *
 * Returns	0, also when fewer rounds were kept, even none
 *		-ETIMEDOUT	the ping-pong's peer did not run
 *		and what measure() returns
 */
int gm_bracket_run(const struct gm_bracket *bracket,
		   int (*measure)(void *arg, struct gm_round *ret_rounds),
		   void *arg, struct gm_series *ret_series);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hostile_good - the client beside hostile ones: it runs jobs and checks every
 * result.
 */
#ifndef GM_TEST_SYSTEM_HOSTILE_HONEST_CLIENT_H
#define GM_TEST_SYSTEM_HOSTILE_HONEST_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/system/hostile/attack.h"

#define GOOD_ROWS 4u /* at most */

struct good {
	struct gpumap *map;
	struct gpumap_session *session;
	uint32_t n_rows; /* that it works on */
	float *dst[GOOD_ROWS], *src[GOOD_ROWS];
	struct hostile random;
	uint32_t *samples; /* round trips, ns */
	uint32_t n_samples;
	uint64_t jobs;
	uint64_t wrong;
	char what[160]; /* describes the first wrong result */
};

/* Open a session and memory on rows 0 to @n_rows - 1 of a running agent.
 * Returns whether all was opened; the client must be closed either way. */
bool good_open(struct good *g, const struct agent *agent, uint32_t n_rows,
	       uint64_t seed);
void good_close(struct good *g);

/* Run one job on one row, from its numbers to its checked result. */
void good_job(struct good *g, uint32_t row);

/* Work until @until_ns.  Returns the 99th percentile of the round trips, ns. */
uint32_t good_work(struct good *g, uint64_t until_ns);

#endif

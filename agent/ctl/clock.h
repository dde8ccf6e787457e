/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* clock - CLOCK_MONOTONIC in nanoseconds, and a thread that ticks. */
#ifndef GM_CLOCK_H
#define GM_CLOCK_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define GM_CLOCK_SECOND UINT64_C(1000000000)

static inline uint64_t gm_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * GM_CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

/* So many seconds in nanoseconds, or 146 years for more than that. */
uint64_t gm_clock_of_seconds(uint64_t s);

/* A thread that takes no signal, and calls a function at intervals. */
struct gm_clock_ticker {
	void (*tick)(void *data);
	void *data;
	uint64_t next_ns; /* the first */
	uint64_t step_ns; /* from the end of one to the next */

	/* below: this module's */
	bool runs;
	pthread_t thread;
	sem_t ends;
};

/* Without a thread, for which there is no room, it never ticks. */
void gm_clock_ticker_begin(struct gm_clock_ticker *ticker);

/* No tick is under way behind this. */
void gm_clock_ticker_end(struct gm_clock_ticker *ticker);

#endif

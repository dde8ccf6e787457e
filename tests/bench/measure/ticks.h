/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ticks - read the cheapest clock, for intervals of some ten nanoseconds.
 *
 * On x86 this is the time stamp counter, which has run at one rate on every
 * core for fifteen years; elsewhere it is CLOCK_MONOTONIC.  Readings are not
 * ordered against other instructions: that is sufficient for a round trip,
 * whose end depends on the data it waited for, and too coarse for a single
 * load.
 */
#ifndef GM_TICKS_H
#define GM_TICKS_H

#include <stdint.h>
#include <time.h>

static inline uint64_t gm_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* Nanoseconds in a tick.  The first call takes 20 ms. */
double gm_ticks_ns(void);

/* Nanoseconds that this thread has spent on a CPU, without the time that other
 * threads had it.  A system call. */
uint64_t gm_ticks_cpu_ns(void);

/* Spin for some nanoseconds, so that this CPU does not go idle. */
void gm_ticks_spin(uint64_t ns);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/bench/measure/ticks.h"

#include "shm/atomic.h"

#define CALIBRATION_NS 20000000u

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double gm_ticks_ns(void)
{
	static double ns_per_tick;
	uint64_t from_ns, from, ns, ticks;

	if (ns_per_tick > 0)
		return ns_per_tick;
	from_ns = clock_ns(CLOCK_MONOTONIC);
	from = gm_ticks();
	do {
		ns = clock_ns(CLOCK_MONOTONIC) - from_ns;
		ticks = gm_ticks() - from;
	} while (ns < CALIBRATION_NS);
	ns_per_tick = (double)ns / (double)ticks;
	return ns_per_tick;
}

uint64_t gm_ticks_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void gm_ticks_spin(uint64_t ns)
{
	uint64_t from = gm_ticks();
	uint64_t ticks = (uint64_t)((double)ns / gm_ticks_ns());

	while (gm_ticks() - from < ticks)
		gm_pause();
}

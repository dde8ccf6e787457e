/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* clock - read CLOCK_MONOTONIC in nanoseconds. */
#ifndef GM_CLOCK_H
#define GM_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t gm_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif

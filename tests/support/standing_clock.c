/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/standing_clock.h"

#include <time.h>

uint64_t standing_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	if (standing_ns == 0 || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ret_now);
	*ret_now = (struct timespec){ (time_t)(standing_ns / 1000000000),
				      (long)(standing_ns % 1000000000) };
	return 0;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Preloaded: the wall clock is a minute ahead, and no other clock is.
 */

#include <dlfcn.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

#define AHEAD_S 60

typedef int get_time(clockid_t clock, struct timespec *ret_time);

__attribute__((visibility("default"))) int
clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	get_time *real;
	int ret;

	*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	ret = real(clock, ret_time);
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		ret_time->tv_sec += AHEAD_S;
	return ret;
}

__attribute__((visibility("default"))) time_t time(time_t *ret_time)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret_time != NULL)
		*ret_time = now.tv_sec;
	return now.tv_sec;
}

__attribute__((visibility("default"))) int
gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	ret_time->tv_sec = now.tv_sec;
	ret_time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

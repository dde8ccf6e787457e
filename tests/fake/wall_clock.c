/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A wall clock that is wrong, to be preloaded: it is a minute ahead, and no
 * other clock is.
 */

#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define AHEAD_S 60

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, ret_time);

	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		ret_time->tv_sec += AHEAD_S;
	return ret;
}

time_t time(time_t *ret_time)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret_time != NULL)
		*ret_time = now.tv_sec;
	return now.tv_sec;
}

int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	ret_time->tv_sec = now.tv_sec;
	ret_time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * node_clock - read CLOCK_MONOTONIC as the initial time namespace has it.
 *
 * gpumapd, its workers and its probe read no other monotonic clock, so that a
 * time that one of them stores for others means the same in all of them, and in
 * clients (shm/timens.h).  Limits on other processes are measured by a clock
 * that is made of this one (running_clock.h).
 */
#ifndef GM_COMMON_NODE_CLOCK_H
#define GM_COMMON_NODE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* This process's CLOCK_MONOTONIC is ahead by so many ns, modulo 2^64. */
extern uint64_t gm_node_clock_offset;

/* Read the offset, before the first time; a process keeps its clock. */
void gm_node_clock_begin(void);

/* Another clock, as this process has it, in ns.  Any thread. */
static inline uint64_t gm_node_clock_read(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

/* In ns.  Any thread. */
static inline uint64_t gm_node_clock_now(void)
{
	return gm_node_clock_read(CLOCK_MONOTONIC) - gm_node_clock_offset;
}

#endif

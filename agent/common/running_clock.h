/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * running_clock - a clock that stands still while its process does not run.
 *
 * A machine that stood still (a paused virtual machine, a frozen, suspended or
 * overloaded host) delays all processes, and CLOCK_MONOTONIC may have gone on
 * by minutes.  A process that measures its limits by this clock ends no healthy
 * process for that.
 *
 * The owner reads the clock at least once between two sleeps, and announces how
 * long it may sleep.  If a reading comes more than GM_RUNNING_STEP_NS later
 * than that, the process has not run, and the clock counts only so much of the
 * time since the reading before.
 *
 * A clock whose bytes are 0 begins with the first reading.
 *
 * Threads	one at a time
 */
#ifndef GM_COMMON_RUNNING_CLOCK_H
#define GM_COMMON_RUNNING_CLOCK_H

#include <stdint.h>

#define GM_RUNNING_STEP_NS UINT64_C(200000000)

struct gm_running_clock {
	uint64_t read_ns;   /* the node's time at the last reading; 0: none */
	uint64_t sleep_ns;  /* announced since then */
	uint64_t paused_ns; /* of the time up to then, not counted */
};

/* Read the clock at the node's time @node_ns, which is now. */
static inline uint64_t gm_running_clock_read(struct gm_running_clock *clock,
					     uint64_t node_ns)
{
	uint64_t passed_ns = node_ns - clock->read_ns;

	if (clock->read_ns != 0 &&
	    passed_ns > clock->sleep_ns + GM_RUNNING_STEP_NS)
		clock->paused_ns += passed_ns - GM_RUNNING_STEP_NS;
	clock->read_ns = node_ns;
	clock->sleep_ns = 0;
	return node_ns - clock->paused_ns;
}

/* The owner is about to sleep for up to @ns. */
static inline void gm_running_clock_sleep(struct gm_running_clock *clock,
					  uint64_t ns)
{
	clock->sleep_ns = ns;
}

#endif

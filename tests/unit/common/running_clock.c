/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* A clock that counts the time in which its process ran or meant to sleep. */

#include "agent/common/running_clock.h"
#include "tests/support/tap.h"

#define SECOND UINT64_C(1000000000)
#define STEP   GM_RUNNING_STEP_NS
#define MINUTE (60 * SECOND)

static struct gm_running_clock running;
static uint64_t node_ns, shown_ns;

static void begin(void)
{
	running = (struct gm_running_clock){ 0 };
	node_ns = 100 * SECOND;
	shown_ns = gm_running_clock_read(&running, node_ns);
	EQ(shown_ns, node_ns);
}

/* The part of @ns that is counted, of which @sleep_ns had been announced. */
static uint64_t counted(uint64_t ns, uint64_t sleep_ns)
{
	uint64_t before = shown_ns;

	if (sleep_ns != 0)
		gm_running_clock_sleep(&running, sleep_ns);
	node_ns += ns;
	shown_ns = gm_running_clock_read(&running, node_ns);
	return shown_ns - before;
}

static void time_that_runs_is_counted(void)
{
	begin();
	EQ(counted(0, 0), 0);
	EQ(counted(STEP, 0), STEP);
	EQ(counted(5 * SECOND, 5 * SECOND), 5 * SECOND);
	EQ(counted(SECOND, 5 * SECOND), SECOND); /* woken before that */
	EQ(counted(5 * SECOND + STEP, 5 * SECOND), 5 * SECOND + STEP);
	EQ(shown_ns, node_ns);
}

static void a_pause_is_not(void)
{
	begin();
	EQ(counted(5 * MINUTE, 0), STEP);
	EQ(counted(STEP, 0), STEP);
	/* Nor is the sleep in which it falls, of which nothing is known. */
	EQ(counted(5 * MINUTE, 4 * SECOND), STEP);
	EQ(node_ns - shown_ns, 10 * MINUTE - 2 * STEP);
}

/* An announcement is of one sleep. */
static void a_sleep_ends_with_a_reading(void)
{
	begin();
	EQ(counted(STEP, MINUTE), STEP);
	EQ(counted(MINUTE, 0), STEP);
}

TAP_CASE()
{
	time_that_runs_is_counted();
	a_pause_is_not();
	a_sleep_ends_with_a_reading();
	return tap_done();
}

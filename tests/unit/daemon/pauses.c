/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Pauses of the process: noticed by late ticks, and counted from an instant. */

#include "agent/daemon/base/pauses.h"
#include "tests/support/tap.h"

#define SECOND UINT64_C(1000000000)

static struct gm_pauses pauses;

static void tick(uint64_t at_ns)
{
	gm_pauses_tick(&pauses, at_ns, SECOND);
}

static void ticks_in_time_are_no_pause(void)
{
	for (uint64_t i = 0; i < 40; i++)
		tick(100 * SECOND + i * 14 * SECOND / 10);
	EQ(gm_pauses_since(&pauses, 0), 0);
}

static void the_late_part_of_a_tick_is_a_pause(void)
{
	pauses = (struct gm_pauses){ .next = 0 };
	tick(100 * SECOND);
	tick(108 * SECOND); /* due at 101 */
	EQ(gm_pauses_since(&pauses, 0), 7 * SECOND);
	EQ(gm_pauses_since(&pauses, 101 * SECOND), 7 * SECOND);
	EQ(gm_pauses_since(&pauses, 105 * SECOND), 3 * SECOND);
	EQ(gm_pauses_since(&pauses, 108 * SECOND), 0);
	tick(109 * SECOND);
	tick(112 * SECOND);
	EQ(gm_pauses_since(&pauses, 100 * SECOND), 9 * SECOND);
	EQ(gm_pauses_since(&pauses, 110 * SECOND), 2 * SECOND);
}

static void the_latest_are_kept(void)
{
	uint64_t at = 1000 * SECOND;

	pauses = (struct gm_pauses){ .next = 0 };
	tick(at);
	for (uint32_t i = 0; i < 2 * GM_PAUSES; i++)
		tick(at += 3 * SECOND);
	EQ(gm_pauses_since(&pauses, 0), GM_PAUSES * 2 * SECOND);
	EQ(gm_pauses_since(&pauses, at - 3 * SECOND), 2 * SECOND);
}

TAP_CASE()
{
	ticks_in_time_are_no_pause();
	the_late_part_of_a_tick_is_a_pause();
	the_latest_are_kept();
	return tap_done();
}

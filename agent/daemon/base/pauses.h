/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * pauses - intervals in which this process did not run.
 *
 * A machine that stood still (a paused virtual machine, a suspended or
 * overloaded host) delays gpumapd and its workers alike.  Limits of signs of
 * life do not count such intervals, so that a pause ends no healthy worker.
 * The agent notices a pause by its own tick: the part of it that came late.
 */
#ifndef GM_DAEMON_BASE_PAUSES_H
#define GM_DAEMON_BASE_PAUSES_H

#include <stdint.h>

#define GM_PAUSES 16u

struct gm_pauses {
	struct {
		uint64_t end_ns;
		uint64_t ns;
	} of[GM_PAUSES]; /* the latest, in a ring */
	uint32_t next;
	uint64_t tick_ns; /* when the last tick was; 0: never */
};

/*
 * gm_pauses_tick - note that the process runs at @now_ns
 *
 * period_ns	from one tick to the next; a tick that is late by less than
 *		half of that is no pause
 *
 * Times are those of gm_loop_now().
 */
void gm_pauses_tick(struct gm_pauses *pauses, uint64_t now_ns,
		    uint64_t period_ns);

/* How much of the time since @since_ns the process did not run, in ns. */
uint64_t gm_pauses_since(const struct gm_pauses *pauses, uint64_t since_ns);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/clock.h"

#include <errno.h>
#include <signal.h>

static void *run(void *data)
{
	struct gm_clock_ticker *t = data;
	struct timespec until;

	for (;;) {
		until.tv_sec = (time_t)(t->next_ns / GM_CLOCK_SECOND);
		until.tv_nsec = (long)(t->next_ns % GM_CLOCK_SECOND);
		if (sem_clockwait(&t->ends, CLOCK_MONOTONIC, &until) == 0)
			return NULL;
		if (errno != ETIMEDOUT)
			continue;
		t->tick(t->data);
		t->next_ns = gm_clock_ns() + t->step_ns;
	}
}

void gm_clock_ticker_begin(struct gm_clock_ticker *t)
{
	sigset_t all, own;

	sem_init(&t->ends, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &own);
	t->runs = pthread_create(&t->thread, NULL, run, t) == 0;
	pthread_sigmask(SIG_SETMASK, &own, NULL);
}

void gm_clock_ticker_end(struct gm_clock_ticker *t)
{
	sem_post(&t->ends);
	if (t->runs)
		pthread_join(t->thread, NULL);
	t->runs = false;
	sem_destroy(&t->ends);
}

uint64_t gm_clock_of_seconds(uint64_t s)
{
	return s < UINT64_MAX / GM_CLOCK_SECOND / 4 ? s * GM_CLOCK_SECOND
						    : UINT64_MAX / 4;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/clock.h"

#include <signal.h>

static void *run(void *data)
{
	struct gm_clock_ticker *t = data;

	pthread_mutex_lock(&t->lock);
	while (!t->is_over) {
		const struct timespec until = {
			.tv_sec = (time_t)(t->next_ns / GM_CLOCK_SECOND),
			.tv_nsec = (long)(t->next_ns % GM_CLOCK_SECOND)
		};

		if (gm_clock_ns() < t->next_ns) {
			pthread_cond_timedwait(&t->ends, &t->lock, &until);
			continue;
		}
		pthread_mutex_unlock(&t->lock);
		t->tick(t->data);
		pthread_mutex_lock(&t->lock);
		t->next_ns = gm_clock_ns() + t->step_ns;
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

void gm_clock_ticker_begin(struct gm_clock_ticker *t)
{
	pthread_condattr_t monotonic;
	sigset_t all, own;

	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&t->ends, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &own);
	t->runs = pthread_create(&t->thread, NULL, run, t) == 0;
	pthread_sigmask(SIG_SETMASK, &own, NULL);
}

void gm_clock_ticker_end(struct gm_clock_ticker *t)
{
	pthread_mutex_lock(&t->lock);
	t->is_over = true;
	pthread_cond_signal(&t->ends);
	pthread_mutex_unlock(&t->lock);
	if (t->runs)
		pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->ends);
	pthread_mutex_destroy(&t->lock);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Say on standard error what the request waits for, from a thread with an
 * attachment of its own, while this process's main thread waits. */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/run/run.h"
#include "agent/ctl/who.h"
#include "agent/reader/list.h"

#define SECOND UINT64_C(1000000000)
#define LOOK_S 1  /* between two looks, and before the first */
#define SAY_S  10 /* between two lines */

struct gm_run_teller {
	const struct gm_run *run;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ends;
	bool ended;
	struct gm_ctl ctl; /* its own */
	char said[512];
	uint64_t said_ns;
};

/* Describe what place @i of the line waits for. */
static void describe(struct gm_run_teller *t, const struct gm_who_line *waits,
		     int i, char ret_text[512])
{
	const struct gpumap_wait_info *wait = &waits->v[i];
	char rows[GM_WHO_ROWS], reason[GM_WHO_REASON], size[32] = "memory";

	gm_who_line_reason(&t->ctl, waits, i, reason);
	if (wait->bytes != 0)
		gm_size_text(wait->bytes, size);
	snprintf(ret_text, 512, "waiting %s row%s %s: %s%s%s",
		 (wait->flags & GPUMAP_WAIT_FOR_START) != 0 ? "to start on"
							    : "for",
		 wait->n_rows == 1 ? "" : "s", gm_who_line_rows(wait, rows),
		 size, reason[0] != '\0' ? "; " : "", reason);
}

static void look(struct gm_run_teller *t)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = t->ctl.instance,
					   .runtime_dir = t->ctl.runtime_dir };
	struct gm_who_line waits = { .v = NULL };
	char text[512] = "waiting for the agent to come back";
	int i = 0, ret = 0;

	if (t->ctl.map == NULL)
		ret = gpumap_attach(&opts, &t->ctl.map);
	if (ret == 0)
		ret = waits.n = gm_list_wait(t->ctl.map, &waits.v);
	while (i < waits.n && strcmp(waits.v[i].name, t->run->name) != 0)
		i++;
	if (i < waits.n)
		describe(t, &waits, i, text);
	free(waits.v);
	if (ret < 0) {
		gpumap_detach(t->ctl.map);
		t->ctl.map = NULL;
	} else if (i == waits.n) {
		return; /* not in the line any more, or not yet */
	}
	if (strcmp(text, t->said) == 0 ||
	    (t->said_ns != 0 && gm_clock_ns() - t->said_ns < SAY_S * SECOND))
		return;
	strcpy(t->said, text);
	t->said_ns = gm_clock_ns();
	gm_run_say("%s", text);
}

static void *tell(void *arg)
{
	struct gm_run_teller *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->ended) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += LOOK_S;
		if (pthread_cond_timedwait(&t->ends, &t->lock, &until) !=
			    ETIMEDOUT ||
		    t->ended)
			continue;
		pthread_mutex_unlock(&t->lock);
		look(t);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	gpumap_detach(t->ctl.map);
	return NULL;
}

struct gm_run_teller *gm_run_tell_start(const struct gm_run *run)
{
	struct gm_run_teller *t = calloc(1, sizeof(*t));
	pthread_condattr_t monotonic;
	sigset_t all, own;
	int ret;

	if (t == NULL)
		return NULL;
	t->run = run;
	t->ctl = *run->ctl;
	t->ctl.map = NULL;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&t->ends, &monotonic);
	pthread_condattr_destroy(&monotonic);
	/* Signals are for the thread that waits. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &own);
	ret = pthread_create(&t->thread, NULL, tell, t);
	pthread_sigmask(SIG_SETMASK, &own, NULL);
	if (ret == 0)
		return t;
	free(t);
	return NULL;
}

void gm_run_tell_stop(struct gm_run_teller *t)
{
	if (t == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	t->ended = true;
	pthread_cond_signal(&t->ends);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->ends);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

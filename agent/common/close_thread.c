/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/close_thread.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/sched_hint.h"

static void do_job(const struct gm_closer_job *job)
{
	if (job->call)
		job->call(job->arg);
	else if (job->memory)
		munmap(job->memory, job->bytes);
	else
		close(job->fd);
}

static void *run(void *arg)
{
	struct gm_closer *closer = arg;

	gm_pace_patient();
	pthread_mutex_lock(&closer->lock);
	for (;;) {
		struct gm_closer_job job;

		while (closer->n == 0 && !closer->stopping)
			pthread_cond_wait(&closer->work, &closer->lock);
		if (closer->n == 0)
			break;
		job = closer->jobs[closer->first++ % GM_CLOSER_JOBS];
		closer->n--;
		pthread_cond_signal(&closer->room);

		pthread_mutex_unlock(&closer->lock);
		do_job(&job);
		pthread_mutex_lock(&closer->lock);
	}
	pthread_mutex_unlock(&closer->lock);
	return NULL;
}

/* The thread must take none of the signals that the loop waits for. */
static bool start(struct gm_closer *closer)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	closer->running =
		pthread_create(&closer->thread, NULL, run, closer) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return closer->running;
}

static void hand_over(struct gm_closer *closer, const struct gm_closer_job *job)
{
	bool taken = false;

	pthread_mutex_lock(&closer->lock);
	/* Calls have an order to keep, everything else may overtake. */
	while (job->call && closer->n == GM_CLOSER_JOBS)
		pthread_cond_wait(&closer->room, &closer->lock);
	if (closer->n < GM_CLOSER_JOBS && (closer->running || start(closer))) {
		closer->jobs[(closer->first + closer->n++) % GM_CLOSER_JOBS] =
			*job;
		pthread_cond_signal(&closer->work);
		taken = true;
	}
	pthread_mutex_unlock(&closer->lock);
	if (!taken)
		do_job(job);
}

void gm_closer_init(struct gm_closer *closer)
{
	*closer = (struct gm_closer){ 0 };
	pthread_mutex_init(&closer->lock, NULL);
	pthread_cond_init(&closer->work, NULL);
	pthread_cond_init(&closer->room, NULL);
}

void gm_closer_close(struct gm_closer *closer, int fd)
{
	if (fd >= 0)
		hand_over(closer, &(struct gm_closer_job){ .fd = fd });
}

void gm_closer_unmap(struct gm_closer *closer, void *memory, size_t bytes)
{
	if (memory)
		hand_over(closer, &(struct gm_closer_job){ .memory = memory,
							   .bytes = bytes });
}

void gm_closer_call(struct gm_closer *closer, void (*call)(void *arg),
		    void *arg)
{
	hand_over(closer, &(struct gm_closer_job){ .call = call, .arg = arg });
}

void gm_closer_stop(struct gm_closer *closer)
{
	pthread_mutex_lock(&closer->lock);
	closer->stopping = true;
	pthread_cond_signal(&closer->work);
	pthread_mutex_unlock(&closer->lock);
	if (closer->running)
		pthread_join(closer->thread, NULL);
	pthread_cond_destroy(&closer->room);
	pthread_cond_destroy(&closer->work);
	pthread_mutex_destroy(&closer->lock);
}

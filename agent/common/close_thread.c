/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/close_thread.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/sched_hint.h"

static void do_job(const struct gm_close_thread_job *job)
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
	struct gm_close_thread *close_thread = arg;

	gm_sched_hint_patient();
	pthread_mutex_lock(&close_thread->lock);
	for (;;) {
		struct gm_close_thread_job job;

		while (close_thread->n == 0 && !close_thread->stopping)
			pthread_cond_wait(&close_thread->work,
					  &close_thread->lock);
		if (close_thread->n == 0)
			break;
		job = close_thread->jobs[close_thread->first++ %
					 GM_CLOSE_THREAD_JOBS];
		close_thread->n--;
		pthread_cond_signal(&close_thread->room);

		pthread_mutex_unlock(&close_thread->lock);
		do_job(&job);
		pthread_mutex_lock(&close_thread->lock);
	}
	pthread_mutex_unlock(&close_thread->lock);
	return NULL;
}

/* The thread must take none of the signals that the loop waits for. */
static bool start(struct gm_close_thread *close_thread)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	close_thread->running = pthread_create(&close_thread->thread, NULL, run,
					       close_thread) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return close_thread->running;
}

static void hand_over(struct gm_close_thread *close_thread,
		      const struct gm_close_thread_job *job)
{
	bool taken = false;

	pthread_mutex_lock(&close_thread->lock);
	/* Calls have an order to keep, everything else may overtake. */
	while (job->call && close_thread->n == GM_CLOSE_THREAD_JOBS)
		pthread_cond_wait(&close_thread->room, &close_thread->lock);
	if (close_thread->n < GM_CLOSE_THREAD_JOBS &&
	    (close_thread->running || start(close_thread))) {
		close_thread->jobs[(close_thread->first + close_thread->n++) %
				   GM_CLOSE_THREAD_JOBS] = *job;
		pthread_cond_signal(&close_thread->work);
		taken = true;
	}
	pthread_mutex_unlock(&close_thread->lock);
	if (!taken)
		do_job(job);
}

void gm_close_thread_init(struct gm_close_thread *close_thread)
{
	*close_thread = (struct gm_close_thread){ 0 };
	pthread_mutex_init(&close_thread->lock, NULL);
	pthread_cond_init(&close_thread->work, NULL);
	pthread_cond_init(&close_thread->room, NULL);
}

void gm_close_thread_close(struct gm_close_thread *close_thread, int fd)
{
	if (fd >= 0)
		hand_over(close_thread,
			  &(struct gm_close_thread_job){ .fd = fd });
}

void gm_close_thread_unmap(struct gm_close_thread *close_thread, void *memory,
			   size_t bytes)
{
	if (memory)
		hand_over(close_thread,
			  &(struct gm_close_thread_job){ .memory = memory,
							 .bytes = bytes });
}

void gm_close_thread_call(struct gm_close_thread *close_thread,
			  void (*call)(void *arg), void *arg)
{
	hand_over(close_thread,
		  &(struct gm_close_thread_job){ .call = call, .arg = arg });
}

void gm_close_thread_stop(struct gm_close_thread *close_thread)
{
	pthread_mutex_lock(&close_thread->lock);
	close_thread->stopping = true;
	pthread_cond_signal(&close_thread->work);
	pthread_mutex_unlock(&close_thread->lock);
	if (close_thread->running)
		pthread_join(close_thread->thread, NULL);
	pthread_cond_destroy(&close_thread->room);
	pthread_cond_destroy(&close_thread->work);
	pthread_mutex_destroy(&close_thread->lock);
}

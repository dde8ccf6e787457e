/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/close_thread.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/sched_hint.h"

/* The kernel holds the lock of the address space for one munmap(). */
#define UNMAP_BYTES ((size_t)64 << 20)

void gm_close_thread_unmap_now(void *memory, size_t bytes)
{
	char *at = memory;

	/* Pages may be larger than that, and are unmapped whole. */
	while (bytes > UNMAP_BYTES && munmap(at, UNMAP_BYTES) == 0) {
		at += UNMAP_BYTES;
		bytes -= UNMAP_BYTES;
	}
	munmap(at, bytes);
}

static void do_job(const struct gm_close_thread_job *job)
{
	if (job->call)
		job->call(job->arg);
	else if (job->memory)
		gm_close_thread_unmap_now(job->memory, job->bytes);
	else
		close(job->fd);
}

static void *run(void *arg)
{
	struct gm_close_thread *close_thread = arg;
	struct gm_close_thread_job *job, copy;

	gm_sched_hint_patient();
	pthread_mutex_lock(&close_thread->lock);
	for (;;) {
		while (STAILQ_EMPTY(&close_thread->jobs) &&
		       !close_thread->stopping)
			pthread_cond_wait(&close_thread->work,
					  &close_thread->lock);
		job = STAILQ_FIRST(&close_thread->jobs);
		if (!job)
			break;
		STAILQ_REMOVE_HEAD(&close_thread->jobs, entry);
		close_thread->busy = true;
		pthread_mutex_unlock(&close_thread->lock);
		copy = *job;
		if (copy.allocated)
			free(job);
		do_job(&copy);
		pthread_mutex_lock(&close_thread->lock);
		close_thread->busy = false;
		if (STAILQ_EMPTY(&close_thread->jobs))
			pthread_cond_broadcast(&close_thread->idle);
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

static bool hand_over(struct gm_close_thread *close_thread,
		      struct gm_close_thread_job *job)
{
	bool taken;

	pthread_mutex_lock(&close_thread->lock);
	taken = close_thread->running || start(close_thread);
	if (taken) {
		STAILQ_INSERT_TAIL(&close_thread->jobs, job, entry);
		pthread_cond_signal(&close_thread->work);
	}
	pthread_mutex_unlock(&close_thread->lock);
	return taken;
}

/* Do the job in the calling thread.  A call comes after all jobs before it. */
static void do_here(struct gm_close_thread *close_thread,
		    const struct gm_close_thread_job *job)
{
	pthread_mutex_lock(&close_thread->lock);
	while (job->call &&
	       (close_thread->busy || !STAILQ_EMPTY(&close_thread->jobs)))
		pthread_cond_wait(&close_thread->idle, &close_thread->lock);
	pthread_mutex_unlock(&close_thread->lock);
	do_job(job);
}

static void hand_over_copy(struct gm_close_thread *close_thread,
			   const struct gm_close_thread_job *job)
{
	struct gm_close_thread_job *copy = malloc(sizeof(*copy));

	if (copy) {
		*copy = *job;
		copy->allocated = true;
		if (hand_over(close_thread, copy))
			return;
		free(copy);
	}
	do_here(close_thread, job);
}

void gm_close_thread_init(struct gm_close_thread *close_thread)
{
	*close_thread = (struct gm_close_thread){ 0 };
	STAILQ_INIT(&close_thread->jobs);
	pthread_mutex_init(&close_thread->lock, NULL);
	pthread_cond_init(&close_thread->work, NULL);
	pthread_cond_init(&close_thread->idle, NULL);
}

void gm_close_thread_close(struct gm_close_thread *close_thread, int fd)
{
	if (fd >= 0)
		hand_over_copy(close_thread,
			       &(struct gm_close_thread_job){ .fd = fd });
}

void gm_close_thread_unmap(struct gm_close_thread *close_thread, void *memory,
			   size_t bytes)
{
	if (memory)
		hand_over_copy(close_thread,
			       &(struct gm_close_thread_job){ .memory = memory,
							      .bytes = bytes });
}

void gm_close_thread_call(struct gm_close_thread *close_thread,
			  void (*call)(void *arg), void *arg)
{
	hand_over_copy(close_thread, &(struct gm_close_thread_job){
					     .call = call, .arg = arg });
}

void gm_close_thread_call_job(struct gm_close_thread *close_thread,
			      struct gm_close_thread_job *job,
			      void (*call)(void *arg), void *arg)
{
	*job = (struct gm_close_thread_job){ .call = call, .arg = arg };
	if (!hand_over(close_thread, job))
		do_here(close_thread, &(struct gm_close_thread_job){
					      .call = call, .arg = arg });
}

void gm_close_thread_stop(struct gm_close_thread *close_thread)
{
	pthread_mutex_lock(&close_thread->lock);
	close_thread->stopping = true;
	pthread_cond_signal(&close_thread->work);
	pthread_mutex_unlock(&close_thread->lock);
	if (close_thread->running)
		pthread_join(close_thread->thread, NULL);
	pthread_cond_destroy(&close_thread->idle);
	pthread_cond_destroy(&close_thread->work);
	pthread_mutex_destroy(&close_thread->lock);
}

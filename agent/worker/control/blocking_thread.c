/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/blocking_thread.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/heartbeat.h"

struct start {
	struct gm_blocking_thread *slow;
	sem_t there;
};

void gm_blocking_thread_sign(struct gm_blocking_thread *slow,
			     enum gm_worker_call call)
{
	gm_put(slow->sign, gm_beat_word(call, gm_now_ns()));
}

/* ---- queues; the lock is held -------------------------------------------- */

void gm_blocking_queue_init(struct gm_blocking_queue *queue)
{
	*queue = (struct gm_blocking_queue){ .n_uses = 0 };
	STAILQ_INIT(&queue->jobs);
}

/* Add a job in front of the others of its queue, or behind them. */
static void add(struct gm_blocking_thread *slow, struct gm_blocking_job *job,
		bool in_front)
{
	struct gm_blocking_queue *queue = job->queue;

	if (STAILQ_EMPTY(&queue->jobs))
		TAILQ_INSERT_TAIL(&slow->queues, queue, entry);
	if (in_front)
		STAILQ_INSERT_HEAD(&queue->jobs, job, entry);
	else
		STAILQ_INSERT_TAIL(&queue->jobs, job, entry);
	queue->n_uses += job->kind == GM_BLOCKING_USES;
}

/* Take the job whose turn it is; its queue has the last turn then.  NULL for
 * none. */
static struct gm_blocking_job *take_next(struct gm_blocking_thread *slow)
{
	struct gm_blocking_job *job = STAILQ_FIRST(&slow->frees);
	struct gm_blocking_queue *queue = TAILQ_FIRST(&slow->queues);

	if (job) {
		STAILQ_REMOVE_HEAD(&slow->frees, entry);
		return job;
	}
	if (!queue)
		return NULL;
	job = STAILQ_FIRST(&queue->jobs);
	STAILQ_REMOVE_HEAD(&queue->jobs, entry);
	queue->n_uses -= job->kind == GM_BLOCKING_USES;
	TAILQ_REMOVE(&slow->queues, queue, entry);
	if (!STAILQ_EMPTY(&queue->jobs))
		TAILQ_INSERT_TAIL(&slow->queues, queue, entry);
	return job;
}

/* ---- the thread ---------------------------------------------------------- */

static void do_job(struct gm_blocking_thread *slow, struct gm_blocking_job *job)
{
	const uint64_t one = 1;
	bool again;

	gm_guarded_wakes();
	gm_access_begin(job->memory);
	gm_blocking_thread_sign(slow, job->call);
	job->again = false;
	job->work(job, slow->dev);
	again = job->again;
	gm_access_begin(NULL);
	gm_guarded_sleeps();
	gm_blocking_thread_sign(slow, GM_CALL_IDLE);
	pthread_mutex_lock(&slow->lock);
	if (again)
		add(slow, job, true);
	else
		STAILQ_INSERT_TAIL(&slow->ended, job, entry);
	pthread_mutex_unlock(&slow->lock);
	if (again)
		return;
	/* The eventfd cannot overflow: that takes 2^64 jobs. */
	while (write(slow->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void *run(void *arg)
{
	struct start *start = arg;
	struct gm_blocking_thread *slow = start->slow;
	struct gm_blocking_job *job;

	gm_stall_guard_watch();
	gm_guarded_sleeps();
	sem_post(&start->there);
	pthread_mutex_lock(&slow->lock);
	for (;;) {
		while ((job = take_next(slow)) == NULL && !slow->stopping)
			pthread_cond_wait(&slow->work, &slow->lock);
		if (!job)
			break;
		pthread_mutex_unlock(&slow->lock);
		do_job(slow, job);
		pthread_mutex_lock(&slow->lock);
	}
	pthread_mutex_unlock(&slow->lock);
	gm_stall_guard_forget();
	return NULL;
}

/* Signals go to the loop's thread, except SIGBUS for memory that was taken away
 * and SIGSYS for calls that a handler answers. */
static int start_thread(struct gm_blocking_thread *slow, struct start *start)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSYS); /* programs/program.c */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&slow->thread, NULL, run, start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

int gm_blocking_thread_start(struct gm_blocking_thread *slow,
			     struct gm_backend_device *dev, gm_a64 *sign,
			     int fd)
{
	struct start start = { .slow = slow };
	int rc;

	*slow = (struct gm_blocking_thread){ .dev = dev,
					     .sign = sign,
					     .fd = fd };
	slow->has_fd = fd < 0;
	if (slow->has_fd)
		slow->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (slow->fd < 0)
		return -errno;
	STAILQ_INIT(&slow->frees);
	TAILQ_INIT(&slow->queues);
	gm_blocking_queue_init(&slow->common);
	STAILQ_INIT(&slow->ended);
	pthread_mutex_init(&slow->lock, NULL);
	pthread_cond_init(&slow->work, NULL);
	sem_init(&start.there, 0, 0);
	rc = start_thread(slow, &start);
	if (rc == 0)
		while (sem_wait(&start.there) < 0)
			;
	else if (slow->has_fd)
		close(slow->fd);
	sem_destroy(&start.there);
	return rc;
}

void gm_blocking_thread_give(struct gm_blocking_thread *slow,
			     struct gm_blocking_queue *queue,
			     struct gm_blocking_job *job)
{
	slow->n++;
	job->queue = queue ? queue : &slow->common;
	pthread_mutex_lock(&slow->lock);
	if (job->kind == GM_BLOCKING_FREES && job->queue->n_uses == 0)
		STAILQ_INSERT_TAIL(&slow->frees, job, entry);
	else
		add(slow, job, false);
	pthread_cond_signal(&slow->work);
	pthread_mutex_unlock(&slow->lock);
}

struct gm_blocking_job *gm_blocking_thread_take(struct gm_blocking_thread *slow)
{
	struct gm_blocking_job *job;

	pthread_mutex_lock(&slow->lock);
	job = STAILQ_FIRST(&slow->ended);
	if (job)
		STAILQ_REMOVE_HEAD(&slow->ended, entry);
	pthread_mutex_unlock(&slow->lock);
	if (job)
		slow->n--;
	return job;
}

void gm_blocking_thread_stop(struct gm_blocking_thread *slow)
{
	pthread_mutex_lock(&slow->lock);
	slow->stopping = true;
	pthread_cond_signal(&slow->work);
	pthread_mutex_unlock(&slow->lock);
	pthread_join(slow->thread, NULL);
	if (slow->has_fd)
		close(slow->fd);
	pthread_cond_destroy(&slow->work);
	pthread_mutex_destroy(&slow->lock);
}

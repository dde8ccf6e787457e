/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * blocking_thread - a thread for calls that may wait for the device or for
 * memory.
 *
 * Allocation, registration and their opposites wait for the device's current
 * work, or for pages.  The loop hands such jobs over and goes on.
 *
 * - Each uid has a queue.  The queues take turns, one job per turn.
 * - A long job does a part per turn: it sets @again, and stays the first of its
 *   queue.
 * - Jobs that free memory come before all others, unless a job before them in
 *   their queue may use memory that exists.
 * - Otherwise jobs of one queue run in the order in which they were handed
 *   over.  Jobs return in the order in which they end.
 */
#ifndef GM_WORKER_CONTROL_BLOCKING_THREAD_H
#define GM_WORKER_CONTROL_BLOCKING_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/device/device.h"
#include "shm/journal.h"

struct gm_worker;

enum gm_blocking_kind {
	GM_BLOCKING_USES,  /* may use memory that exists */
	GM_BLOCKING_MAKES, /* makes memory that no other job uses yet */
	GM_BLOCKING_FREES  /* frees memory that no later job uses */
};

struct gm_blocking_queue;
struct gm_mapping;

/* Base of a job: the first member of the caller's own struct. */
struct gm_blocking_job {
	STAILQ_ENTRY(gm_blocking_job) entry;
	struct gm_blocking_queue *queue;
	enum gm_blocking_kind kind;
	/* Memory that work() accesses, of a client; or NULL. */
	const struct gm_mapping *memory;
	enum gm_worker_call call; /* published as heartbeat */
	bool again; /* set by work(): call it again, in a later turn */
	/* Called in the slow thread. */
	void (*work)(struct gm_blocking_job *job,
		     struct gm_backend_device *dev);
	/* Called in the loop afterwards.  Frees the job. */
	void (*done)(struct gm_blocking_job *job, struct gm_worker *worker);
};

STAILQ_HEAD(gm_slow_jobs, gm_blocking_job);

/* The jobs of one uid that have not ended. */
struct gm_blocking_queue {
	TAILQ_ENTRY(gm_blocking_queue) entry; /* while it has jobs */
	struct gm_slow_jobs jobs;
	uint32_t n_uses; /* jobs of GM_BLOCKING_USES among them */
};

struct gm_blocking_thread {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct gm_slow_jobs frees;              /* that come first */
	TAILQ_HEAD(, gm_blocking_queue) queues; /* the next turn first */
	struct gm_blocking_queue common;        /* jobs of no uid */
	struct gm_slow_jobs ended;
	bool stopping;
	struct gm_backend_device *dev;
	gm_a64 *sign; /* heartbeat word in the journal */
	pthread_t thread;
	/* An eventfd, readable when jobs have ended.  Its value is never
	 * read. */
	int fd;
	bool has_fd; /* the eventfd is its own */
	/* Jobs handed over and not returned.  Used by the loop only. */
	uint32_t n;
};

/* Start the thread.  @fd is the eventfd of another slow thread to share, or -1.
 * Returns 0 or -errno.  On return the thread has finished its set-up, and takes
 * no signal except SIGBUS and SIGSYS. */
int gm_blocking_thread_start(struct gm_blocking_thread *slow,
			     struct gm_backend_device *dev, gm_a64 *sign,
			     int fd);

void gm_blocking_queue_init(struct gm_blocking_queue *queue);

/* Hand a job over.  @queue is its uid's, which has to exist until the job has
 * returned, or NULL: the thread's own for jobs of no uid. */
void gm_blocking_thread_give(struct gm_blocking_thread *slow,
			     struct gm_blocking_queue *queue,
			     struct gm_blocking_job *job);

/* Take a job that has ended, NULL for none.  The caller calls its done(). */
struct gm_blocking_job *
gm_blocking_thread_take(struct gm_blocking_thread *slow);

/* Publish the call that a job is inside of.  Called in the slow thread. */
void gm_blocking_thread_sign(struct gm_blocking_thread *slow,
			     enum gm_worker_call call);

/* Wait until all jobs are finished, and end the thread. */
void gm_blocking_thread_stop(struct gm_blocking_thread *slow);

#endif

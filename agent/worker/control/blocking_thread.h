/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * blocking_thread - a thread for what may wait for the device or for memory.
 *
 * Allocation, registration and their opposites wait for whatever the device is
 * doing, or for pages.  The loop hands such jobs over and goes on; they are
 * done in the order in which they were handed over, and come back in that
 * order.
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

/* Whoever hands one over embeds this at the beginning of a struct of its
 * own. */
struct gm_slow_job {
	STAILQ_ENTRY(gm_slow_job) entry;
	enum gm_worker_call call; /* for the sign of life */
	/* In the slow thread. */
	void (*work)(struct gm_slow_job *job, struct gm_backend_device *dev);
	/* In the loop, afterwards.  It frees the job. */
	void (*done)(struct gm_slow_job *job, struct gm_worker *worker);
};

STAILQ_HEAD(gm_slow_jobs, gm_slow_job);

struct gm_slow {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct gm_slow_jobs todo;
	struct gm_slow_jobs ended;
	bool stopping;
	struct gm_backend_device *dev;
	gm_a64 *sign; /* of life, in the journal */
	pthread_t thread;
	int fd;      /* an eventfd: some have ended.  Nobody reads it. */
	bool has_fd; /* of its own */
	uint32_t n;  /* the loop's own: handed over, and not back */
};

/* @fd: the eventfd of another, -1 for one of its own.  Returns 0 or -errno.
 * The thread is through with its own set-up then, and takes no signal. */
int gm_slow_start(struct gm_slow *slow, struct gm_backend_device *dev,
		  gm_a64 *sign, int fd);

/* Hand a job over. */
void gm_slow_give(struct gm_slow *slow, struct gm_slow_job *job);

/* One that has ended, NULL for none; its done() is the caller's to call. */
struct gm_slow_job *gm_slow_take(struct gm_slow *slow);

/* In the slow thread: what a job is inside of now. */
void gm_slow_sign(struct gm_slow *slow, enum gm_worker_call call);

/* Wait until everything is done, and end the thread. */
void gm_slow_stop(struct gm_slow *slow);

#endif

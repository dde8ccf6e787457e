/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * io_thread - runs jobs that may take long off the loop: plans, and files that
 * must be on the disk before a client is answered.
 *
 * One job at a time.  While the thread has a job the loop touches nothing that
 * the job works on, and the job touches nothing else; the handing over orders
 * the rest.  The thread takes no signal.
 *
 * Without a thread, before gm_io_thread_start() and after gm_io_thread_stop(),
 * the caller runs the job itself: slowly, but it is run.
 *
 * A file system may take as long as it likes.  Transactions of all clients wait
 * then; nothing else does.  A call that hangs cannot be told from a slow one,
 * nor ended: after late_ns the log says so, and again when the job is done.
 * Only the end of the agent does not wait for ever.
 */
#ifndef GM_DAEMON_BASE_IO_THREAD_H
#define GM_DAEMON_BASE_IO_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "agent/daemon/base/loop.h"

/* Embedded in what it works on. */
struct gm_io_job {
	void (*work)(struct gm_io_job *job); /* on the I/O thread */
	void (*done)(struct gm_io_job *job); /* by the loop, after it */
};

#define GM_IO_THREAD_LATE_NS UINT64_C(10000000000)

/* Zeroed: one without a thread. */
struct gm_io_thread {
	struct gm_loop *loop;
	const char *name; /* for the log */
	struct gm_timer late;
	uint64_t late_ns;  /* that a job may take unsaid */
	uint64_t since_ns; /* the job in hand */
	bool is_late;
	struct gm_source news;     /* an eventfd: a job has been done */
	struct gm_io_job *in_hand; /* the loop's own: NULL when idle */
	pthread_t thread;
	bool running; /* the thread */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping;              /* under the lock, as what follows */
	struct gm_io_job *todo;     /* not begun */
	struct gm_io_job *finished; /* the loop does not know yet */
};

/* @name stays the caller's.  Returns 0, or a negative errno of eventfd,
 * epoll_ctl or pthread_create. */
int gm_io_thread_start(struct gm_io_thread *io_thread, struct gm_loop *loop,
		       const char *name);

/*
 * gm_io_thread_submit - have a job done
 *
 * The thread must be idle.  job->done() may submit the next job.
 */
void gm_io_thread_submit(struct gm_io_thread *io_thread, struct gm_io_job *job);

/* Wait until what is in hand has been done, call its done(), and end the
 * thread.  Allowed for one that was never started.  Returns 0, or -ETIMEDOUT
 * when it has not been done at @until_ns, which is logged: the thread is still
 * at it, and all that it works on has to stay. */
int gm_io_thread_stop(struct gm_io_thread *io_thread, uint64_t until_ns);

#endif

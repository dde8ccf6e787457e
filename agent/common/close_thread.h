/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * close_thread - a thread that gives memory back, so that a loop need not.
 *
 * The last close of a memfd, and the munmap of a mapping of it, free every
 * page that was touched: tens of milliseconds for a gigabyte.  An event loop
 * hands such things over and goes on, however many the thread has still to do.
 * The caller does the work itself only where no thread can be started or no
 * memory is left to note the job.  A job that the caller provides needs none.
 *
 * The thread starts with the first thing to do, takes no signal, leaves the
 * CPUs to the threads that work (sched_hint.h), and touches only memory and
 * descriptors that it was handed.
 */
#ifndef GM_COMMON_CLOSE_THREAD_H
#define GM_COMMON_CLOSE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct gm_close_thread_job {
	STAILQ_ENTRY(gm_close_thread_job) entry;
	void (*call)(void *arg); /* NULL: to unmap or to close */
	void *arg;
	void *memory; /* to unmap, or NULL: then fd is to be closed */
	size_t bytes;
	int fd;
	bool allocated; /* by the close thread's own functions */
};

struct gm_close_thread {
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_cond_t idle; /* no job is left */
	pthread_t thread;
	bool running;
	bool stopping;
	bool busy;                               /* in a job */
	STAILQ_HEAD(, gm_close_thread_job) jobs; /* the oldest first */
};

void gm_close_thread_init(struct gm_close_thread *close_thread);

/* Close @fd, soon.  A negative @fd is nothing to close. */
void gm_close_thread_close(struct gm_close_thread *close_thread, int fd);

/* Unmap @bytes at @memory, soon.  NULL is nothing to unmap. */
void gm_close_thread_unmap(struct gm_close_thread *close_thread, void *memory,
			   size_t bytes);

/* Call @call(@arg), from the thread, once everything that was handed over
 * before is done. */
void gm_close_thread_call(struct gm_close_thread *close_thread,
			  void (*call)(void *arg), void *arg);

/* The same with a job of the caller's, which may be part of what @call
 * frees. */
void gm_close_thread_call_job(struct gm_close_thread *close_thread,
			      struct gm_close_thread_job *job,
			      void (*call)(void *arg), void *arg);

/* Unmap @bytes at @memory, in the calling thread.  A mapping of any size keeps
 * the process's other threads from their own mmap() for a short time only. */
void gm_close_thread_unmap_now(void *memory, size_t bytes);

/* Wait until all is done, and end the thread. */
void gm_close_thread_stop(struct gm_close_thread *close_thread);

#endif

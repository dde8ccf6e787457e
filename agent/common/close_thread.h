/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * close_thread - a thread that gives memory back, so that a loop need not.
 *
 * The last close of a memfd, and the munmap of a mapping of it, free every
 * page that was touched: tens of milliseconds for a gigabyte.  An event loop
 * hands such things over and goes on.  When the thread cannot be had, or is
 * far behind, the caller does the work itself: slow, but never not at all.
 *
 * The thread starts with the first thing to do, takes no signal, leaves the
 * CPUs to those who work (sched_hint.h), and never touches anything but what it
 * was handed.
 */
#ifndef GM_COMMON_CLOSE_THREAD_H
#define GM_COMMON_CLOSE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define GM_CLOSE_THREAD_JOBS 256u /* handed over and not done yet */

struct gm_close_thread_job {
	void (*call)(void *arg); /* NULL: to unmap or to close */
	void *arg;
	void *memory; /* to unmap, or NULL: then fd is to be closed */
	size_t bytes;
	int fd;
};

struct gm_close_thread {
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_cond_t room;
	pthread_t thread;
	bool running;
	bool stopping;
	unsigned first; /* jobs[first % GM_CLOSE_THREAD_JOBS] is the oldest */
	unsigned n;
	struct gm_close_thread_job jobs[GM_CLOSE_THREAD_JOBS];
};

void gm_close_thread_init(struct gm_close_thread *close_thread);

/* Close @fd, soon.  A negative @fd is nothing to close. */
void gm_close_thread_close(struct gm_close_thread *close_thread, int fd);

/* Unmap @bytes at @memory, soon.  NULL is nothing to unmap. */
void gm_close_thread_unmap(struct gm_close_thread *close_thread, void *memory,
			   size_t bytes);

/* Call @call(@arg), from the thread, once everything that was handed over
 * before is done.  Waits for room where the thread is far behind. */
void gm_close_thread_call(struct gm_close_thread *close_thread,
			  void (*call)(void *arg), void *arg);

/* Wait until all is done, and end the thread. */
void gm_close_thread_stop(struct gm_close_thread *close_thread);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * close_thread: everything handed over is done, by the thread alone, however
 * far behind it is.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/common/close_thread.h"
#include "tests/support/tap.h"

#define MANY 600

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Is there a mapping at @memory?  msync answers without touching it. */
static bool is_mapped(void *memory)
{
	return msync(memory, 4096, MS_ASYNC) == 0 || errno != ENOMEM;
}

static void descriptors_are_closed(void)
{
	static struct gm_close_thread close_thread;
	int fds[2];

	gm_close_thread_init(&close_thread);
	OK(pipe2(fds, O_CLOEXEC) == 0);
	gm_close_thread_close(&close_thread, fds[0]);
	gm_close_thread_close(&close_thread, -1);
	gm_close_thread_close(&close_thread, fds[1]);
	gm_close_thread_stop(&close_thread);
	OK(!is_open(fds[0]));
	OK(!is_open(fds[1]));
}

static void ranges_are_unmapped(void)
{
	static struct gm_close_thread close_thread;
	/* More than one munmap() takes, and not a multiple of it. */
	size_t bytes = (192 << 20) + 4096;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!OK(memory != MAP_FAILED))
		return;
	gm_close_thread_init(&close_thread);
	gm_close_thread_unmap(&close_thread, NULL, 0);
	gm_close_thread_unmap(&close_thread, memory, bytes);
	gm_close_thread_stop(&close_thread);
	OK(!is_mapped(memory));
	OK(!is_mapped((char *)memory + bytes - 4096));
}

static int n_open(const int *fds)
{
	int n = 0;

	for (int i = 0; i < MANY; i++)
		n += is_open(fds[i]);
	return n;
}

static void open_many(int *fds)
{
	for (int i = 0; i < MANY; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	EQ(n_open(fds), MANY);
}

static void wait_for(void *go)
{
	while (sem_wait(go) < 0)
		;
}

static void count(void *n)
{
	(*(int *)n)++;
}

/* The thread is in its first job until all others are handed over. */
static void the_caller_does_none_of_the_work(void)
{
	static struct gm_close_thread close_thread;
	struct gm_close_thread_job own;
	void *memory =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fds[MANY], calls = 0;
	sem_t go;

	sem_init(&go, 0, 0);
	open_many(fds);
	gm_close_thread_init(&close_thread);
	gm_close_thread_call(&close_thread, wait_for, &go);
	for (int i = 0; i < MANY; i++)
		gm_close_thread_close(&close_thread, fds[i]);
	gm_close_thread_unmap(&close_thread, memory, 4096);
	gm_close_thread_call(&close_thread, count, &calls);
	gm_close_thread_call_job(&close_thread, &own, count, &calls);
	EQ(n_open(fds), MANY);
	OK(is_mapped(memory));
	EQ(calls, 0);
	sem_post(&go);
	gm_close_thread_stop(&close_thread);
	EQ(n_open(fds), 0);
	OK(!is_mapped(memory));
	EQ(calls, 2);
	sem_destroy(&go);
}

struct watched {
	int fds[MANY];
	int open_at_call;
	int calls;
};

static void look(void *arg)
{
	struct watched *w = arg;

	w->calls++;
	w->open_at_call = n_open(w->fds);
}

static void calls_come_after_what_was_there(void)
{
	static struct gm_close_thread close_thread;
	static struct watched w;

	gm_close_thread_init(&close_thread);
	open_many(w.fds);
	for (int i = 0; i < MANY; i++)
		gm_close_thread_close(&close_thread, w.fds[i]);
	gm_close_thread_call(&close_thread, look, &w);
	gm_close_thread_stop(&close_thread);
	EQ(w.calls, 1);
	EQ(w.open_at_call, 0);
}

struct pace {
	int policy;
	int nice;
};

static void note_pace(void *ret_pace)
{
	struct pace *pace = ret_pace;

	/* The time of this thread alone. */
	pace->policy = sched_getscheduler(0);
	pace->nice = getpriority(PRIO_PROCESS, 0);
}

/* At another nice value its exit holds up the parent that reaps us. */
static void it_preempts_nobody_at_our_nice_value(void)
{
	struct pace its = { -1, -21 };
	static struct gm_close_thread close_thread;

	gm_close_thread_init(&close_thread);
	gm_close_thread_call(&close_thread, note_pace, &its);
	gm_close_thread_stop(&close_thread);
	EQ(its.policy, SCHED_BATCH);
	EQ(its.nice, getpriority(PRIO_PROCESS, 0));
	EQ(sched_getscheduler(0), SCHED_OTHER);
}

static void stop_without_work_is_harmless(void)
{
	static struct gm_close_thread close_thread;

	gm_close_thread_init(&close_thread);
	gm_close_thread_stop(&close_thread);
	OK(!close_thread.running);
}

TAP_CASE()
{
	descriptors_are_closed();
	ranges_are_unmapped();
	the_caller_does_none_of_the_work();
	calls_come_after_what_was_there();
	it_preempts_nobody_at_our_nice_value();
	stop_without_work_is_harmless();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/memory/stall_guard.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/worker/queue/heartbeat.h"

#define LOOK_NS UINT64_C(20000000) /* between two looks */
/* Looks at threads that all sleep, before the guard does.  A thread that sleeps
 * between jobs thus wakes the guard once a second, and not for each job. */
#define IDLE_LOOKS 50u

_Thread_local struct gm_guarded gm_guarded_self;
gm_a32 gm_stall_guard_sleeps;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static LIST_HEAD(, gm_guarded) threads = LIST_HEAD_INITIALIZER(threads);
static pthread_t guard;
static bool runs;
static gm_a32 stops;
static struct gm_journal *journal;
static uint64_t looked_ns;
static uint32_t idle_looks;

/* ---- threads ------------------------------------------------------------- */

void gm_stall_guard_watch(void)
{
	struct gm_guarded *self = &gm_guarded_self;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/wchan",
		 (int)syscall(SYS_gettid));
	self->wchan = open(path, O_RDONLY | O_CLOEXEC);
	if (self->wchan < 0)
		return;
	self->is_watched = true;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&threads, self, entry);
	pthread_mutex_unlock(&lock);
	gm_guarded_wakes();
}

void gm_stall_guard_forget(void)
{
	struct gm_guarded *self = &gm_guarded_self;

	if (!self->is_watched)
		return;
	pthread_mutex_lock(&lock);
	LIST_REMOVE(self, entry);
	pthread_mutex_unlock(&lock);
	close(self->wchan);
	self->is_watched = false;
}

/* Does the thread wait for the end of a punch?  The file has the name of the
 * function in the kernel, or "0". */
static bool waits_for_punch(const struct gm_guarded *thread)
{
	static const char name[] = "shmem_";
	char text[sizeof(name) - 1];

	return pread(thread->wchan, text, sizeof(text), 0) == sizeof(text) &&
	       memcmp(text, name, sizeof(text)) == 0;
}

/* ---- looks --------------------------------------------------------------- */

/* The mapping that some thread waits for, or NULL. */
static struct gm_mapping *withheld(void)
{
	struct gm_guarded *thread;
	uint64_t mapping = 0;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(thread, &threads, entry)
	{
		mapping = gm_get(&thread->mapping);
		if (mapping && waits_for_punch(thread) &&
		    gm_get(&thread->mapping) == mapping)
			break;
	}
	pthread_mutex_unlock(&lock);
	return thread ? (struct gm_mapping *)(uintptr_t)mapping : NULL;
}

static void publish(uint64_t since_ns, uint64_t place)
{
	gm_put(&journal->stalled_place, place);
	gm_put(&journal->stalled, since_ns);
}

static void look(void)
{
	uint64_t now_ns = gm_now_ns(), passed_ns = now_ns - looked_ns, waited;
	struct gm_mapping *mapping = withheld();
	uint32_t place = 0;

	looked_ns = now_ns;
	/* A late look tells nothing about the time before it. */
	if (passed_ns > 2 * LOOK_NS)
		passed_ns = 2 * LOOK_NS;
	waited =
		mapping ? gm_sigbus_withheld(mapping, now_ns, passed_ns, &place)
			: 0;
	if (!waited) {
		if (gm_get(&journal->stalled))
			publish(0, 0);
		return;
	}
	if (!gm_get(&journal->stalled))
		publish(now_ns, (uint64_t)place + 1);
	if (waited >= GM_STALL_NS)
		gm_sigbus_take_away(mapping);
}

static bool any_awake(void)
{
	const struct gm_guarded *thread;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(thread, &threads, entry)
	{
		if (gm_get_ordered(&thread->awake)) /* GUARD.awake */
			break;
	}
	pthread_mutex_unlock(&lock);
	return thread || gm_get_ordered(&stops); /* GUARD.awake */
}

static void futex(int op, uint32_t value, const struct timespec *limit)
{
	syscall(SYS_futex, &gm_stall_guard_sleeps, op, value, limit, NULL, 0);
}

void gm_stall_guard_wake(void)
{
	gm_put_ordered(&gm_stall_guard_sleeps, 0); /* GUARD.awake */
	futex(FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* Sleep until the next look, or until a thread wakes. */
static void sleep_on(void)
{
	const struct timespec nap = { .tv_nsec = (long)LOOK_NS };

	idle_looks = any_awake() ? 0 : idle_looks + 1;
	if (idle_looks < IDLE_LOOKS) {
		futex(FUTEX_WAIT_PRIVATE, 0, &nap);
		return;
	}
	gm_put_ordered(&gm_stall_guard_sleeps, 1); /* GUARD.awake */
	while (!any_awake() && gm_get(&gm_stall_guard_sleeps))
		futex(FUTEX_WAIT_PRIVATE, 1, NULL);
	gm_put(&gm_stall_guard_sleeps, 0);
	idle_looks = 0;
}

static void *run(void *there)
{
	gm_put(&journal->guard, (uint64_t)syscall(SYS_gettid));
	sem_post(there);
	while (!gm_get(&stops)) {
		look();
		sleep_on();
	}
	return NULL;
}

int gm_stall_guard_start(struct gm_journal *to)
{
	sigset_t all, before;
	sem_t there;
	int rc;

	journal = to;
	looked_ns = gm_now_ns();
	idle_looks = 0;
	gm_put(&stops, 0);
	publish(0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	sem_init(&there, 0, 0);
	rc = pthread_create(&guard, NULL, run, &there);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	runs = rc == 0;
	while (runs && sem_wait(&there) < 0)
		;
	sem_destroy(&there);
	return -rc;
}

void gm_stall_guard_stop(void)
{
	if (!runs)
		return;
	gm_put(&journal->guard, 0);
	gm_put_ordered(&stops, 1); /* GUARD.awake */
	gm_stall_guard_wake();
	pthread_join(guard, NULL);
	runs = false;
}

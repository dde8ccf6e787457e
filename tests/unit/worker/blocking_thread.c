/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * blocking_thread: uids take turns, however much one of them asks for; memory
 * is freed before more is made, and never while an earlier job may use it; no
 * job is lost or done twice while both threads change the queues.
 */

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/worker/control/blocking_thread.h"
#include "tests/support/process.h"
#include "tests/support/tap.h"
#include "tests/support/worker/gate.h"

#define JOBS     30000u
#define AT_ONCE  300u
#define LIMIT_MS 60000

static struct gm_blocking_thread slow;
static struct gm_blocking_queue uid[3];
static gm_a64 sign;
static char order[64]; /* names of the jobs, as their parts were done */

struct job {
	struct gm_blocking_job job;
	char name;
	uint32_t parts; /* left to do */
	uint32_t done;  /* parts */
};

static void do_part(struct gm_blocking_job *job, struct gm_backend_device *dev)
{
	struct job *j = (struct job *)job;

	(void)dev;
	if (j->name)
		order[strlen(order)] = j->name;
	j->done++;
	job->again = --j->parts > 0;
}

static void give(struct job *j, struct gm_blocking_queue *queue)
{
	j->job.work = do_part;
	gm_blocking_thread_give(&slow, queue, &j->job);
}

/* The thread is in a job until open_gate(). */
static void close_gate(void)
{
	memset(order, 0, sizeof(order));
	gate_close(&slow);
}

/* Wait until the thread has finished all jobs. */
static void take_all(void)
{
	struct pollfd ended = { .fd = slow.fd, .events = POLLIN };

	while (slow.n && poll(&ended, 1, LIMIT_MS) == 1)
		gm_blocking_thread_take(&slow);
	EQ(slow.n, 0);
}

static void open_gate(void)
{
	gate_open();
	take_all();
}

static void a_long_job_lets_others_pass(void)
{
	struct job a = { .name = 'a', .parts = 5 };
	struct job a2 = { .name = 'A', .parts = 1 };
	struct job b = { .name = 'b', .parts = 2 };
	struct job none = { .name = 'n', .parts = 1 };

	close_gate();
	give(&a, &uid[0]);
	give(&a2, &uid[0]);
	give(&b, &uid[1]);
	give(&none, NULL);
	open_gate();
	STR(order, "abnabaaaA");
}

static void many_jobs_of_one_uid_delay_no_other(void)
{
	struct job a[20], b = { .name = 'b', .parts = 1 };

	close_gate();
	for (int i = 0; i < 20; i++) {
		a[i] = (struct job){ .name = (char)('A' + i), .parts = 1 };
		give(&a[i], &uid[0]);
	}
	give(&b, &uid[1]);
	open_gate();
	STR(order, "AbBCDEFGHIJKLMNOPQRST");
}

static void memory_is_freed_first(void)
{
	struct job make = { .job.kind = GM_BLOCKING_MAKES,
			    .name = 'm',
			    .parts = 3 };
	struct job other = make;
	struct job frees = { .job.kind = GM_BLOCKING_FREES,
			     .name = 'f',
			     .parts = 1 };
	struct job theirs = frees;

	other.name = 'o';
	theirs.name = 't';
	close_gate();
	give(&make, &uid[0]);
	give(&other, &uid[1]);
	give(&theirs, &uid[1]);
	give(&frees, &uid[0]);
	open_gate();
	STR(order, "tfmomomo");
}

static void memory_in_use_is_freed_last(void)
{
	struct job make = { .job.kind = GM_BLOCKING_MAKES,
			    .name = 'm',
			    .parts = 2 };
	struct job use = { .name = 'u', .parts = 1 };
	struct job frees = { .job.kind = GM_BLOCKING_FREES,
			     .name = 'f',
			     .parts = 1 };
	struct job theirs = frees, later = frees;

	theirs.name = 't';
	later.name = 'l';
	close_gate();
	give(&make, &uid[0]);
	give(&use, &uid[0]);
	give(&frees, &uid[0]);
	give(&theirs, &uid[1]);
	open_gate();
	STR(order, "tmmuf");
	/* The use has ended: no job has to wait for it. */
	make.parts = 1;
	close_gate();
	give(&make, &uid[0]);
	give(&later, &uid[0]);
	open_gate();
	STR(order, "lm");
}

/* Take what has ended, and check each job. */
static uint32_t take_some(void)
{
	struct gm_blocking_job *job;
	uint32_t wrong = 0;

	while ((job = gm_blocking_thread_take(&slow)) != NULL) {
		struct job *j = (struct job *)job;

		wrong += j->parts != 0 || j->done == 0;
		j->done = 0;
	}
	return wrong;
}

static void nothing_is_lost(void)
{
	static struct job jobs[JOBS];
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < JOBS; i++) {
		jobs[i].parts = 1 + i % 3;
		jobs[i].job.kind = (enum gm_blocking_kind)(i / 3 % 3);
		give(&jobs[i], i % 4 < 3 ? &uid[i % 4] : NULL);
		while (slow.n > AT_ONCE)
			wrong += take_some();
		if (i % 7 == 0)
			wrong += take_some();
	}
	while (slow.n)
		wrong += take_some();
	EQ(wrong, 0);
}

/* ---- the lock ------------------------------------------------------------ */

static gm_a32 caller; /* thread of the call, 0 before it has begun */
static gm_a32 has_returned;

static void *give_one(void *arg)
{
	gm_put(&caller, (uint32_t)syscall(SYS_gettid));
	give(arg, NULL);
	gm_put(&has_returned, 1);
	return NULL;
}

static void *take_one(void *arg)
{
	(void)arg;
	gm_put(&caller, (uint32_t)syscall(SYS_gettid));
	gm_blocking_thread_take(&slow);
	gm_put(&has_returned, 1);
	return NULL;
}

/* A call that changes the queues sleeps while another thread has the lock. */
static void waits_for_the_lock(void *(*call)(void *), void *arg)
{
	const struct timespec moment = { .tv_nsec = 100000 };
	pthread_t thread;

	gm_put(&caller, 0);
	gm_put(&has_returned, 0);
	pthread_mutex_lock(&slow.lock);
	EQ(pthread_create(&thread, NULL, call, arg), 0);
	while (!gm_get(&has_returned) &&
	       (!gm_get(&caller) ||
		process_state((pid_t)gm_get(&caller)) != 'S'))
		nanosleep(&moment, NULL);
	OK(!gm_get(&has_returned));
	pthread_mutex_unlock(&slow.lock);
	pthread_join(thread, NULL);
	OK(gm_get(&has_returned));
}

static void both_ends_take_the_lock(void)
{
	struct job a = { .name = 'a', .parts = 1 };

	memset(order, 0, sizeof(order));
	waits_for_the_lock(give_one, &a);
	take_all();
	STR(order, "a");
	waits_for_the_lock(take_one, NULL);
}

TAP_CASE()
{
	for (int i = 0; i < 3; i++)
		gm_blocking_queue_init(&uid[i]);
	if (!EQ(gm_blocking_thread_start(&slow, NULL, &sign, -1), 0))
		return tap_done();
	a_long_job_lets_others_pass();
	many_jobs_of_one_uid_delay_no_other();
	memory_is_freed_first();
	memory_in_use_is_freed_last();
	nothing_is_lost();
	both_ends_take_the_lock();
	gm_blocking_thread_stop(&slow);
	return tap_done();
}

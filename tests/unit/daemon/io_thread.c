/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* io_thread: which thread does which job, in which order, and how it ends. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/io_thread.h"
#include "tests/support/tap.h"

#define JOBS 1000

struct job {
	struct gm_io_job head;
	struct gm_io_thread *io_thread;
	pthread_t worker;
	int left;  /* to give again from done() */
	int works; /* plain: the handing over orders it */
	int dones;
	bool was_idle;
	sigset_t mask;
};

static struct gm_loop loop;
static int gate[2]; /* a pipe */

static void work(struct gm_io_job *head)
{
	struct job *job = gm_owner(head, struct job, head);

	job->worker = pthread_self();
	pthread_sigmask(SIG_SETMASK, NULL, &job->mask);
	job->works++;
}

static void done(struct gm_io_job *head)
{
	struct job *job = gm_owner(head, struct job, head);

	job->dones++;
	job->was_idle = !job->io_thread->in_hand;
	if (--job->left > 0)
		gm_io_thread_submit(job->io_thread, head);
	else
		gm_loop_stop(&loop);
}

static struct job job_for(struct gm_io_thread *io_thread, int times)
{
	return (struct job){ .head = { work, done },
			     .io_thread = io_thread,
			     .left = times };
}

static void the_caller_does_it_without_a_thread(void)
{
	struct gm_io_thread io_thread = { 0 };
	struct job job = job_for(&io_thread, 3);

	gm_io_thread_submit(&io_thread, &job.head);
	EQ(job.works, 3);
	EQ(job.dones, 3);
	OK(pthread_equal(job.worker, pthread_self()));
	OK(!io_thread.in_hand);
	EQ(gm_io_thread_stop(&io_thread, UINT64_MAX), 0);
}

static void a_thread_does_it_and_the_loop_is_told(void)
{
	struct gm_io_thread io_thread;
	struct job job = job_for(&io_thread, JOBS);

	EQ(gm_loop_init(&loop), 0);
	EQ(gm_io_thread_start(&io_thread, &loop, "test"), 0);
	gm_io_thread_submit(&io_thread, &job.head);
	OK(io_thread.in_hand);
	EQ(job.dones, 0);
	EQ(gm_loop_run(&loop), 0);
	EQ(job.works, JOBS);
	EQ(job.dones, JOBS);
	OK(job.was_idle);
	OK(!pthread_equal(job.worker, pthread_self()));
	OK(sigismember(&job.mask, SIGTERM));
	OK(sigismember(&job.mask, SIGHUP));
	EQ(gm_io_thread_stop(&io_thread, UINT64_MAX), 0);
	gm_loop_exit(&loop);
}

static void work_at_the_gate(struct gm_io_job *head)
{
	char byte;

	if (read(gate[0], &byte, 1) == 1)
		work(head);
}

static void *open_gate(void *arg)
{
	(void)arg;
	usleep(20000);
	return write(gate[1], "12", 2) == 2 ? gate : NULL;
}

/* The present job is finished, and jobs that it adds are done as well. */
static void stopping_waits_for_what_is_in_hand(void)
{
	struct gm_io_thread io_thread;
	struct job job = job_for(&io_thread, 2);
	pthread_t other;
	void *opened;

	job.head.work = work_at_the_gate;
	EQ(pipe(gate), 0);
	EQ(gm_loop_init(&loop), 0);
	EQ(gm_io_thread_start(&io_thread, &loop, "test"), 0);
	gm_io_thread_submit(&io_thread, &job.head);
	EQ(pthread_create(&other, NULL, open_gate, NULL), 0);
	EQ(gm_io_thread_stop(&io_thread, UINT64_MAX), 0);
	EQ(job.works, 2);
	EQ(job.dones, 2);
	OK(!io_thread.in_hand);
	EQ(pthread_join(other, &opened), 0);
	OK(opened != NULL);
	EQ(gm_io_thread_stop(&io_thread, UINT64_MAX), 0);
	gm_loop_exit(&loop);
}

/* The thread stays with the job that does not end, and can be waited for
 * again. */
static void stopping_does_not_wait_for_ever(void)
{
	struct gm_io_thread io_thread;
	struct job job = job_for(&io_thread, 1);

	job.head.work = work_at_the_gate;
	EQ(gm_loop_init(&loop), 0);
	EQ(gm_io_thread_start(&io_thread, &loop, "test"), 0);
	gm_io_thread_submit(&io_thread, &job.head);
	EQ(gm_io_thread_stop(&io_thread, gm_loop_now() + 1000000), -ETIMEDOUT);
	EQ(gm_io_thread_stop(&io_thread, 0), -ETIMEDOUT);
	EQ(job.dones, 0);
	OK(io_thread.in_hand);
	EQ(write(gate[1], "1", 1), 1);
	EQ(gm_io_thread_stop(&io_thread, UINT64_MAX), 0);
	EQ(job.dones, 1);
	OK(!io_thread.in_hand);
	gm_loop_exit(&loop);
}

/* ---- what takes long ----------------------------------------------------- */

#define LOOKS   4000 /* against hanging: of a few milliseconds each */
#define LOOK_NS UINT64_C(5000000)

static FILE *on_message; /* what was logged */
static int looks;

static bool was_logged(const char *what)
{
	char line[512];
	bool was = false;

	rewind(on_message);
	while (fgets(line, sizeof(line), on_message))
		was |= strstr(line, what) != NULL;
	return was;
}

/* The gate is opened when it was said that the job takes long. */
static void look(struct gm_timer *timer)
{
	if (!was_logged("event=io_thread_late thread=test for_s=") &&
	    ++looks < LOOKS)
		gm_timer_set(&loop, timer, gm_loop_now() + LOOK_NS);
	else
		EQ(write(gate[1], "1", 1), 1);
}

static void what_takes_long_is_said(void)
{
	struct gm_timer timer = { .fired = look };
	struct gm_io_thread io_thread;
	struct job job = job_for(&io_thread, 1);
	int before = dup(STDERR_FILENO);

	on_message = tmpfile();
	if (!OK(on_message != NULL) ||
	    dup2(fileno(on_message), STDERR_FILENO) < 0)
		return;
	EQ(gm_loop_init(&loop), 0);
	EQ(gm_io_thread_start(&io_thread, &loop, "test"), 0);
	io_thread.late_ns = 1;
	job.head.work = work_at_the_gate;
	gm_io_thread_submit(&io_thread, &job.head);
	gm_timer_set(&loop, &timer, gm_loop_now());
	EQ(gm_loop_run(&loop), 0);
	EQ(job.dones, 1);
	OK(was_logged("event=io_thread_late thread=test for_s="));
	OK(was_logged("event=io_thread_back thread=test after_s="));
	/* And nothing of one that does not. */
	io_thread.late_ns = GM_IO_THREAD_LATE_NS * 1000;
	EQ(ftruncate(fileno(on_message), 0), 0);
	rewind(on_message);
	job = job_for(&io_thread, 1);
	gm_io_thread_submit(&io_thread, &job.head);
	loop.stop = false;
	EQ(gm_loop_run(&loop), 0);
	EQ(job.dones, 1);
	OK(!was_logged("event=io_thread_"));
	EQ(gm_io_thread_stop(&io_thread, UINT64_MAX), 0);
	gm_loop_exit(&loop);
	dup2(before, STDERR_FILENO);
	close(before);
	fclose(on_message);
}

TAP_CASE()
{
	the_caller_does_it_without_a_thread();
	a_thread_does_it_and_the_loop_is_told();
	stopping_waits_for_what_is_in_hand();
	stopping_does_not_wait_for_ever();
	what_takes_long_is_said();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* clerk: who does what, in which order, and how it ends. */

#include <signal.h>
#include <unistd.h>

#include "agent/daemon/clerk.h"
#include "tap.h"

#define JOBS 1000

struct job {
	struct gm_clerk_job head;
	struct gm_clerk *clerk;
	pthread_t worker;
	int left;  /* to give again from done() */
	int works; /* plain: the handing over orders it */
	int dones;
	bool was_idle;
	sigset_t mask;
};

static struct gm_loop loop;
static int gate[2]; /* a pipe */

static void work(struct gm_clerk_job *head)
{
	struct job *job = gm_owner(head, struct job, head);

	job->worker = pthread_self();
	pthread_sigmask(SIG_SETMASK, NULL, &job->mask);
	job->works++;
}

static void done(struct gm_clerk_job *head)
{
	struct job *job = gm_owner(head, struct job, head);

	job->dones++;
	job->was_idle = gm_clerk_idle(job->clerk);
	if (--job->left > 0)
		gm_clerk_give(job->clerk, head);
	else
		gm_loop_stop(&loop);
}

static struct job job_for(struct gm_clerk *clerk, int times)
{
	return (struct job){ .head = { work, done },
			     .clerk = clerk,
			     .left = times };
}

static void the_caller_does_it_without_a_thread(void)
{
	struct gm_clerk clerk = { 0 };
	struct job job = job_for(&clerk, 3);

	gm_clerk_give(&clerk, &job.head);
	EQ(job.works, 3);
	EQ(job.dones, 3);
	OK(pthread_equal(job.worker, pthread_self()));
	OK(gm_clerk_idle(&clerk));
	gm_clerk_stop(&clerk);
}

static void a_thread_does_it_and_the_loop_is_told(void)
{
	struct gm_clerk clerk;
	struct job job = job_for(&clerk, JOBS);

	EQ(gm_loop_init(&loop), 0);
	EQ(gm_clerk_start(&clerk, &loop), 0);
	gm_clerk_give(&clerk, &job.head);
	OK(!gm_clerk_idle(&clerk));
	EQ(job.dones, 0);
	EQ(gm_loop_run(&loop), 0);
	EQ(job.works, JOBS);
	EQ(job.dones, JOBS);
	OK(job.was_idle);
	OK(!pthread_equal(job.worker, pthread_self()));
	OK(sigismember(&job.mask, SIGTERM));
	OK(sigismember(&job.mask, SIGHUP));
	gm_clerk_stop(&clerk);
	gm_loop_exit(&loop);
}

static void work_at_the_gate(struct gm_clerk_job *head)
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

/* What is in hand is finished, and what it gives then is done as well. */
static void stopping_waits_for_what_is_in_hand(void)
{
	struct gm_clerk clerk;
	struct job job = job_for(&clerk, 2);
	pthread_t other;
	void *opened;

	job.head.work = work_at_the_gate;
	EQ(pipe(gate), 0);
	EQ(gm_loop_init(&loop), 0);
	EQ(gm_clerk_start(&clerk, &loop), 0);
	gm_clerk_give(&clerk, &job.head);
	EQ(pthread_create(&other, NULL, open_gate, NULL), 0);
	gm_clerk_stop(&clerk);
	EQ(job.works, 2);
	EQ(job.dones, 2);
	OK(gm_clerk_idle(&clerk));
	EQ(pthread_join(other, &opened), 0);
	OK(opened != NULL);
	gm_clerk_stop(&clerk);
	gm_loop_exit(&loop);
}

int main(void)
{
	the_caller_does_it_without_a_thread();
	a_thread_does_it_and_the_loop_is_told();
	stopping_waits_for_what_is_in_hand();
	return tap_done();
}

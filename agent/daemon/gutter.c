/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/gutter.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

#include "agent/common/pace.h"

struct job {
	TAILQ_ENTRY(job) entry;
	int fd;
	uid_t uid;
};

TAILQ_HEAD(jobs, job);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct jobs waiting = TAILQ_HEAD_INITIALIZER(waiting);
static struct jobs in_hand = TAILQ_HEAD_INITIALIZER(in_hand);
static unsigned n_threads, n_idle;

static void *run(void *unused)
{
	(void)unused;
	gm_pace_patient();
	pthread_mutex_lock(&lock);
	for (;;) {
		struct job *job = TAILQ_FIRST(&waiting);

		if (!job) {
			n_idle++;
			pthread_cond_wait(&work, &lock);
			n_idle--;
			continue;
		}
		TAILQ_REMOVE(&waiting, job, entry);
		TAILQ_INSERT_TAIL(&in_hand, job, entry);
		pthread_mutex_unlock(&lock);
		close(job->fd);
		pthread_mutex_lock(&lock);
		TAILQ_REMOVE(&in_hand, job, entry);
		free(job);
	}
	return NULL;
}

/* It takes none of the signals that the loop waits for. */
static bool start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	bool is_there;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	is_there = pthread_create(&thread, &attr, run, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	n_threads += is_there;
	return is_there;
}

static bool hand_over(struct job *job)
{
	bool is_taken = true;

	pthread_mutex_lock(&lock);
	/* Those that are idle may not have woken for what waits already. */
	if (n_threads < GM_GUTTER_THREADS &&
	    (n_idle == 0 || TAILQ_FIRST(&waiting)))
		is_taken = start() || n_threads > 0;
	if (is_taken) {
		TAILQ_INSERT_TAIL(&waiting, job, entry);
		pthread_cond_signal(&work);
	}
	pthread_mutex_unlock(&lock);
	return is_taken;
}

void gm_gutter_close(int fd, uid_t uid)
{
	struct job *job;

	if (fd < 0)
		return;
	job = malloc(sizeof(*job));
	if (job) {
		job->fd = fd;
		job->uid = uid;
	}
	if (job && hand_over(job))
		return;
	free(job);
	close(fd);
}

bool gm_gutter_is_full(uid_t uid)
{
	const struct job *job;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	TAILQ_FOREACH(job, &waiting, entry)
	n += job->uid == uid;
	TAILQ_FOREACH(job, &in_hand, entry)
	n += job->uid == uid;
	pthread_mutex_unlock(&lock);
	return n >= GM_GUTTER_PER_UID;
}

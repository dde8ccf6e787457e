/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/deferred_close.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

#include "agent/common/sched_hint.h"

struct job {
	STAILQ_ENTRY(job) entry;
	int fd;
};

/* A uid, as long as anything of it is not closed yet. */
struct owner {
	TAILQ_ENTRY(owner) entry;
	uid_t uid;
	unsigned n_waiting;
	unsigned n_in_hand;
	STAILQ_HEAD(, job) waiting;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
/* Whose turn it is comes first. */
static TAILQ_HEAD(, owner) owners = TAILQ_HEAD_INITIALIZER(owners);
static unsigned n_threads, n_idle, n_busy;

/* ---- whose turn it is -------------------------------------------------- */

static struct owner *find(uid_t uid)
{
	struct owner *owner;

	TAILQ_FOREACH(owner, &owners, entry)
	{
		if (owner->uid == uid)
			break;
	}
	return owner;
}

/* The next one that waits and may have a thread; NULL: none. */
static struct owner *next(void)
{
	struct owner *owner;

	TAILQ_FOREACH(owner, &owners, entry)
	{
		if (owner->n_waiting > 0 &&
		    owner->n_in_hand < GM_DEFERRED_CLOSE_THREADS - n_busy)
			break;
	}
	return owner;
}

static struct job *begin(struct owner *owner)
{
	struct job *job = STAILQ_FIRST(&owner->waiting);

	STAILQ_REMOVE_HEAD(&owner->waiting, entry);
	owner->n_waiting--;
	owner->n_in_hand++;
	n_busy++;
	TAILQ_REMOVE(&owners, owner, entry);
	TAILQ_INSERT_TAIL(&owners, owner, entry);
	return job;
}

static void leave(struct owner *owner)
{
	if (owner->n_waiting > 0 || owner->n_in_hand > 0)
		return;
	TAILQ_REMOVE(&owners, owner, entry);
	free(owner);
}

/* ---- threads ----------------------------------------------------------- */

static void *run(void *unused)
{
	(void)unused;
	gm_sched_hint_patient();
	pthread_mutex_lock(&lock);
	for (;;) {
		struct owner *owner = next();
		struct job *job;

		if (!owner) {
			n_idle++;
			pthread_cond_wait(&work, &lock);
			n_idle--;
			continue;
		}
		job = begin(owner);
		pthread_mutex_unlock(&lock);
		close(job->fd);
		free(job);
		pthread_mutex_lock(&lock);
		n_busy--;
		owner->n_in_hand--;
		leave(owner);
	}
	return NULL;
}

/* The thread takes none of the signals that the loop waits for. */
static void start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	n_threads += pthread_create(&thread, &attr, run, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

/* ---- handing over ------------------------------------------------------ */

static struct owner *find_or_make(uid_t uid)
{
	struct owner *owner = find(uid);

	if (owner)
		return owner;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->uid = uid;
	STAILQ_INIT(&owner->waiting);
	TAILQ_INSERT_TAIL(&owners, owner, entry);
	return owner;
}

/* Returns false where there is no thread, and no other to be had. */
static bool hand_over(struct job *job, uid_t uid)
{
	bool waits_already, is_taken;
	struct owner *owner;

	pthread_mutex_lock(&lock);
	waits_already = next() != NULL;
	owner = find_or_make(uid);
	if (owner) {
		STAILQ_INSERT_TAIL(&owner->waiting, job, entry);
		owner->n_waiting++;
		/* Those that are idle may not have woken for what waits. */
		if (n_threads < GM_DEFERRED_CLOSE_THREADS && next() &&
		    (n_idle == 0 || waits_already))
			start();
		pthread_cond_signal(&work);
	}
	is_taken = owner && n_threads > 0;
	if (owner && !is_taken) {
		STAILQ_REMOVE_HEAD(&owner->waiting, entry); /* the only one */
		owner->n_waiting--;
		leave(owner);
	}
	pthread_mutex_unlock(&lock);
	return is_taken;
}

void gm_deferred_close_close(int fd, uid_t uid)
{
	struct job *job;

	if (fd < 0)
		return;
	job = malloc(sizeof(*job));
	if (job)
		job->fd = fd;
	if (job && hand_over(job, uid))
		return;
	free(job);
	close(fd);
}

bool gm_deferred_close_is_full(uid_t uid)
{
	const struct owner *owner;
	bool is_full;

	pthread_mutex_lock(&lock);
	owner = find(uid);
	is_full = owner && owner->n_waiting + owner->n_in_hand >=
				   GM_DEFERRED_CLOSE_PER_UID;
	pthread_mutex_unlock(&lock);
	return is_full;
}

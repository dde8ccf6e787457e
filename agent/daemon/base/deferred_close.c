/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/deferred_close.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/sched_hint.h"

STAILQ_HEAD(jobs, gm_deferred_memory);

/* A uid, as long as anything of it is not closed yet. */
struct owner {
	TAILQ_ENTRY(owner) entry;
	uid_t uid;
	unsigned n_waiting;
	unsigned n_in_hand;
	unsigned n_closes; /* of both: descriptors that came from it */
	struct jobs waiting;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
/* Whose turn it is comes first. */
static TAILQ_HEAD(, owner) owners = TAILQ_HEAD_INITIALIZER(owners);
static unsigned n_threads, n_idle, n_busy;
/* Memory that is free, and the loop does not know yet. */
static struct jobs freed = STAILQ_HEAD_INITIALIZER(freed);
static struct gm_source news = { .fd = -1 };

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

static struct gm_deferred_memory *begin(struct owner *owner)
{
	struct gm_deferred_memory *job = STAILQ_FIRST(&owner->waiting);

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

/* ---- memory ------------------------------------------------------------ */

/* The client keeps the file by its descriptors, and nothing in it. */
static void punch(int fd)
{
	struct stat st;
	int ret;

	if (fstat(fd, &st) != 0)
		return;
	do {
		ret = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				0, st.st_size);
	} while (ret != 0 && errno == EINTR);
}

static void do_job(struct gm_deferred_memory *job)
{
	if (job->is_punched)
		punch(job->fd);
	close(job->fd);
}

/* The lock is held. */
static void done(struct owner *owner, struct gm_deferred_memory *job)
{
	n_busy--;
	owner->n_in_hand--;
	if (job->freed) {
		STAILQ_INSERT_TAIL(&freed, job, entry);
		if (news.fd >= 0)
			eventfd_write(news.fd, 1);
	} else {
		owner->n_closes--;
		free(job);
	}
	leave(owner);
}

static void deliver(struct gm_source *source, uint32_t events)
{
	struct jobs now = STAILQ_HEAD_INITIALIZER(now);
	struct gm_deferred_memory *memory;
	eventfd_t count;

	(void)events;
	if (eventfd_read(source->fd, &count) != 0)
		return;
	pthread_mutex_lock(&lock);
	STAILQ_CONCAT(&now, &freed);
	pthread_mutex_unlock(&lock);
	while ((memory = STAILQ_FIRST(&now))) {
		STAILQ_REMOVE_HEAD(&now, entry);
		memory->freed(memory);
	}
}

/* ---- threads ----------------------------------------------------------- */

static void *run(void *unused)
{
	(void)unused;
	gm_sched_hint_patient();
	pthread_mutex_lock(&lock);
	for (;;) {
		struct owner *owner = next();
		struct gm_deferred_memory *job;

		if (!owner) {
			n_idle++;
			pthread_cond_wait(&work, &lock);
			n_idle--;
			continue;
		}
		job = begin(owner);
		pthread_mutex_unlock(&lock);
		do_job(job);
		pthread_mutex_lock(&lock);
		done(owner, job);
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
static bool hand_over(struct gm_deferred_memory *job, uid_t uid)
{
	bool waits_already, is_taken;
	struct owner *owner;

	pthread_mutex_lock(&lock);
	waits_already = next() != NULL;
	owner = find_or_make(uid);
	if (owner) {
		STAILQ_INSERT_TAIL(&owner->waiting, job, entry);
		owner->n_waiting++;
		owner->n_closes += !job->freed;
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
		owner->n_closes -= !job->freed;
		leave(owner);
	}
	pthread_mutex_unlock(&lock);
	return is_taken;
}

void gm_deferred_close_close(int fd, uid_t uid)
{
	struct gm_deferred_memory *job;

	if (fd < 0)
		return;
	job = calloc(1, sizeof(*job));
	if (job)
		job->fd = fd;
	if (job && hand_over(job, uid))
		return;
	free(job);
	close(fd);
}

void gm_deferred_close_free(struct gm_deferred_memory *memory, int fd,
			    uid_t uid)
{
	memory->fd = fd;
	memory->is_punched = true;
	if (hand_over(memory, uid))
		return;
	close(fd); /* not punched: that could wait for ever */
	memory->freed(memory);
}

int gm_deferred_close_start(struct gm_loop *loop)
{
	int error;

	news = (struct gm_source){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
				   .ready = deliver };
	error = news.fd < 0 ? -errno : gm_loop_add(loop, &news, EPOLLIN);
	if (error)
		gm_deferred_close_stop(loop);
	return error;
}

void gm_deferred_close_stop(struct gm_loop *loop)
{
	int fd;

	gm_loop_del(loop, &news);
	pthread_mutex_lock(&lock);
	fd = news.fd;
	news.fd = -1;
	pthread_mutex_unlock(&lock);
	if (fd >= 0)
		close(fd);
}

unsigned gm_deferred_close_left(void)
{
	const struct owner *owner;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	TAILQ_FOREACH(owner, &owners, entry)
	n += owner->n_waiting + owner->n_in_hand;
	pthread_mutex_unlock(&lock);
	return n;
}

bool gm_deferred_close_is_full(uid_t uid)
{
	const struct owner *owner;
	bool is_full;

	pthread_mutex_lock(&lock);
	owner = find(uid);
	is_full = owner && owner->n_closes >= GM_DEFERRED_CLOSE_PER_UID;
	pthread_mutex_unlock(&lock);
	return is_full;
}

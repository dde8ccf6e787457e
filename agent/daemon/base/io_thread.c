/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/io_thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/common/log.h"

static void *run(void *arg)
{
	struct gm_clerk *clerk = arg;
	struct gm_clerk_job *job;

	pthread_mutex_lock(&clerk->lock);
	for (;;) {
		while (clerk->todo == NULL && !clerk->stopping)
			pthread_cond_wait(&clerk->wake, &clerk->lock);
		job = clerk->todo;
		if (job == NULL)
			break;
		clerk->todo = NULL;
		pthread_mutex_unlock(&clerk->lock);

		job->work(job);

		pthread_mutex_lock(&clerk->lock);
		clerk->finished = job;
		/* Cannot fail: one job at a time counts to one. */
		eventfd_write(clerk->news.fd, 1);
	}
	pthread_mutex_unlock(&clerk->lock);
	return NULL;
}

static uint64_t seconds_of(const struct gm_clerk *clerk)
{
	return (gm_loop_now() - clerk->since_ns) / 1000000000;
}

static void is_late(struct gm_timer *timer)
{
	struct gm_clerk *clerk = gm_owner(timer, struct gm_clerk, late);

	clerk->is_late = true;
	gm_log(GM_LOG_WARNING, "clerk_late",
	       "clerk=%s for_s=%" PRIu64
	       " remedy=\"changes wait for it: see whether the file systems of "
	       "the state directory, of models and of /dev/shm answer\"",
	       clerk->name, seconds_of(clerk));
}

static void is_back(struct gm_clerk *clerk)
{
	gm_timer_stop(clerk->loop, &clerk->late);
	if (clerk->is_late)
		gm_log(GM_LOG_INFO, "clerk_back", "clerk=%s after_s=%" PRIu64,
		       clerk->name, seconds_of(clerk));
	clerk->is_late = false;
}

static void deliver(struct gm_clerk *clerk)
{
	struct gm_clerk_job *job;

	pthread_mutex_lock(&clerk->lock);
	job = clerk->finished;
	clerk->finished = NULL;
	pthread_mutex_unlock(&clerk->lock);
	if (job == NULL)
		return;
	is_back(clerk);
	clerk->in_hand = NULL;
	job->done(job);
}

static void news(struct gm_source *source, uint32_t events)
{
	struct gm_clerk *clerk = gm_owner(source, struct gm_clerk, news);
	eventfd_t count;

	(void)events;
	if (eventfd_read(source->fd, &count) == 0)
		deliver(clerk);
}

/* The signals are the loop's. */
static int start_thread(struct gm_clerk *clerk)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&clerk->thread, NULL, run, clerk);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

static void free_parts(struct gm_clerk *clerk)
{
	gm_loop_del(clerk->loop, &clerk->news);
	close(clerk->news.fd);
	pthread_cond_destroy(&clerk->wake);
	pthread_mutex_destroy(&clerk->lock);
	clerk->running = false;
}

int gm_clerk_start(struct gm_clerk *clerk, struct gm_loop *loop,
		   const char *name)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int ret;

	if (fd < 0)
		return -errno;
	*clerk = (struct gm_clerk){ .loop = loop,
				    .name = name,
				    .late = { .fired = is_late },
				    .late_ns = GM_CLERK_LATE_NS,
				    .news = { fd, news } };
	pthread_mutex_init(&clerk->lock, NULL);
	pthread_cond_init(&clerk->wake, NULL);
	ret = gm_loop_add(loop, &clerk->news, EPOLLIN);
	if (ret == 0)
		ret = start_thread(clerk);
	if (ret != 0) {
		free_parts(clerk);
		return ret;
	}
	clerk->running = true;
	return 0;
}

void gm_clerk_give(struct gm_clerk *clerk, struct gm_clerk_job *job)
{
	assert(gm_clerk_idle(clerk));
	if (!clerk->running) {
		job->work(job);
		job->done(job);
		return;
	}
	clerk->in_hand = job;
	clerk->since_ns = gm_loop_now();
	gm_timer_set(clerk->loop, &clerk->late,
		     clerk->since_ns + clerk->late_ns);
	pthread_mutex_lock(&clerk->lock);
	clerk->todo = job;
	pthread_cond_signal(&clerk->wake);
	pthread_mutex_unlock(&clerk->lock);
}

bool gm_clerk_idle(const struct gm_clerk *clerk)
{
	return clerk->in_hand == NULL;
}

/* Has what is in hand been done, by then? */
static bool is_done(const struct gm_clerk *clerk, uint64_t until_ns)
{
	struct pollfd news = { .fd = clerk->news.fd, .events = POLLIN };
	uint64_t now, ms;

	if (clerk->in_hand == NULL)
		return true;
	do {
		now = gm_loop_now();
		ms = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;
		if (poll(&news, 1, ms < INT_MAX ? (int)ms : INT_MAX) > 0)
			return true;
	} while (gm_loop_now() < until_ns);
	return false;
}

int gm_clerk_stop(struct gm_clerk *clerk, uint64_t until_ns)
{
	if (!clerk->running)
		return 0;
	if (!is_done(clerk, until_ns)) {
		gm_log(GM_LOG_ERROR, "clerk_stuck",
		       "clerk=%s for_s=%" PRIu64
		       " remedy=\"what it was about is as it was, or as it was "
		       "to be: see whether the file systems of the state "
		       "directory, of models and of /dev/shm answer\"",
		       clerk->name, seconds_of(clerk));
		return -ETIMEDOUT;
	}
	pthread_mutex_lock(&clerk->lock);
	clerk->stopping = true;
	pthread_cond_signal(&clerk->wake);
	pthread_mutex_unlock(&clerk->lock);
	pthread_join(clerk->thread, NULL);
	clerk->running = false;
	/* Whatever it gives from here on is done by us. */
	deliver(clerk);
	free_parts(clerk);
	return 0;
}

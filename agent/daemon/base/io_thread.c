/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/io_thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/common/log.h"

#define LOOK_MS 50

static void *run(void *arg)
{
	struct gm_io_thread *io_thread = arg;
	struct gm_io_job *job;

	pthread_mutex_lock(&io_thread->lock);
	for (;;) {
		while (io_thread->todo == NULL && !io_thread->stopping)
			pthread_cond_wait(&io_thread->wake, &io_thread->lock);
		job = io_thread->todo;
		if (job == NULL)
			break;
		io_thread->todo = NULL;
		pthread_mutex_unlock(&io_thread->lock);

		job->work(job);

		pthread_mutex_lock(&io_thread->lock);
		io_thread->finished = job;
		/* Cannot fail: one job at a time counts to one. */
		eventfd_write(io_thread->news.fd, 1);
	}
	pthread_mutex_unlock(&io_thread->lock);
	return NULL;
}

static uint64_t seconds_of(const struct gm_io_thread *io_thread)
{
	return (gm_loop_now() - io_thread->since_ns) / 1000000000;
}

static void is_late(struct gm_timer *timer)
{
	struct gm_io_thread *io_thread =
		gm_owner(timer, struct gm_io_thread, late);

	io_thread->is_late = true;
	gm_log(GM_LOG_WARNING, "io_thread_late",
	       "thread=%s for_s=%" PRIu64
	       " remedy=\"changes wait for it: see whether the file systems of "
	       "the state directory, of models and of /dev/shm answer\"",
	       io_thread->name, seconds_of(io_thread));
}

static void is_back(struct gm_io_thread *io_thread)
{
	gm_timer_stop(io_thread->loop, &io_thread->late);
	if (io_thread->is_late)
		gm_log(GM_LOG_INFO, "io_thread_back",
		       "thread=%s after_s=%" PRIu64, io_thread->name,
		       seconds_of(io_thread));
	io_thread->is_late = false;
}

static void deliver(struct gm_io_thread *io_thread)
{
	struct gm_io_job *job;

	pthread_mutex_lock(&io_thread->lock);
	job = io_thread->finished;
	io_thread->finished = NULL;
	pthread_mutex_unlock(&io_thread->lock);
	if (job == NULL)
		return;
	is_back(io_thread);
	io_thread->in_hand = NULL;
	job->done(job);
}

static void news(struct gm_source *source, uint32_t events)
{
	struct gm_io_thread *io_thread =
		gm_owner(source, struct gm_io_thread, news);
	eventfd_t count;

	(void)events;
	if (eventfd_read(source->fd, &count) == 0)
		deliver(io_thread);
}

/* The signals are the loop's. */
static int start_thread(struct gm_io_thread *io_thread)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&io_thread->thread, NULL, run, io_thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

static void free_parts(struct gm_io_thread *io_thread)
{
	gm_loop_del(io_thread->loop, &io_thread->news);
	close(io_thread->news.fd);
	pthread_cond_destroy(&io_thread->wake);
	pthread_mutex_destroy(&io_thread->lock);
	io_thread->running = false;
}

int gm_io_thread_start(struct gm_io_thread *io_thread, struct gm_loop *loop,
		       const char *name)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int ret;

	if (fd < 0)
		return -errno;
	*io_thread = (struct gm_io_thread){ .loop = loop,
					    .name = name,
					    .late = { .fired = is_late },
					    .late_ns = GM_IO_THREAD_LATE_NS,
					    .news = { fd, news } };
	pthread_mutex_init(&io_thread->lock, NULL);
	pthread_cond_init(&io_thread->wake, NULL);
	ret = gm_loop_add(loop, &io_thread->news, EPOLLIN);
	if (ret == 0)
		ret = start_thread(io_thread);
	if (ret != 0) {
		free_parts(io_thread);
		return ret;
	}
	io_thread->running = true;
	return 0;
}

void gm_io_thread_submit(struct gm_io_thread *io_thread, struct gm_io_job *job)
{
	assert(io_thread->in_hand == NULL);
	if (!io_thread->running) {
		job->work(job);
		job->done(job);
		return;
	}
	io_thread->in_hand = job;
	io_thread->since_ns = gm_loop_now();
	gm_timer_set(io_thread->loop, &io_thread->late,
		     io_thread->since_ns + io_thread->late_ns);
	pthread_mutex_lock(&io_thread->lock);
	io_thread->todo = job;
	pthread_cond_signal(&io_thread->wake);
	pthread_mutex_unlock(&io_thread->lock);
}

/* Has what is in hand been done, by then?  The clock counts short sleeps
 * only. */
static bool is_done(const struct gm_io_thread *io_thread, uint64_t until_ns)
{
	struct pollfd news = { .fd = io_thread->news.fd, .events = POLLIN };

	if (io_thread->in_hand == NULL)
		return true;
	do {
		if (poll(&news, 1, LOOK_MS) > 0)
			return true;
	} while (gm_loop_now() < until_ns);
	return false;
}

int gm_io_thread_stop(struct gm_io_thread *io_thread, uint64_t until_ns)
{
	if (!io_thread->running)
		return 0;
	if (!is_done(io_thread, until_ns)) {
		gm_log(GM_LOG_ERROR, "io_thread_stuck",
		       "thread=%s for_s=%" PRIu64
		       " remedy=\"what it was about is as it was, or as it was "
		       "to be: see whether the file systems of the state "
		       "directory, of models and of /dev/shm answer\"",
		       io_thread->name, seconds_of(io_thread));
		return -ETIMEDOUT;
	}
	pthread_mutex_lock(&io_thread->lock);
	io_thread->stopping = true;
	pthread_cond_signal(&io_thread->wake);
	pthread_mutex_unlock(&io_thread->lock);
	pthread_join(io_thread->thread, NULL);
	io_thread->running = false;
	/* Whatever it gives from here on is done by us. */
	deliver(io_thread);
	free_parts(io_thread);
	return 0;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/loop.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "agent/common/node_clock.h"
#include "agent/common/running_clock.h"

#define NS_PER_MS UINT64_C(1000000)

/* The process has one loop. */
static struct gm_running_clock running;

uint64_t gm_loop_now(void)
{
	return gm_running_clock_read(&running, gm_node_clock_now());
}

int gm_loop_init(struct gm_loop *loop)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0)
		return -errno;
	*loop = (struct gm_loop){ .epoll = fd };
	TAILQ_INIT(&loop->timers);
	return 0;
}

void gm_loop_exit(struct gm_loop *loop)
{
	close(loop->epoll);
	loop->epoll = -1;
}

int gm_loop_add(struct gm_loop *loop, struct gm_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) != 0)
		return -errno;
	return 0;
}

int gm_loop_mod(struct gm_loop *loop, struct gm_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (epoll_ctl(loop->epoll, EPOLL_CTL_MOD, source->fd, &event) != 0)
		return -errno;
	return 0;
}

void gm_loop_del(struct gm_loop *loop, struct gm_source *source)
{
	if (source->fd >= 0)
		epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
	for (int i = 0; i < loop->n_batch; i++) {
		if (loop->batch[i].data.ptr == source)
			loop->batch[i].data.ptr = NULL;
	}
}

/* Most timers are set for the same while ahead, so the search from the end is
 * a short one. */
void gm_timer_set(struct gm_loop *loop, struct gm_timer *timer, uint64_t due_ns)
{
	struct gm_timer *before;

	gm_timer_stop(loop, timer);
	timer->due_ns = due_ns != 0 ? due_ns : 1;
	before = TAILQ_LAST(&loop->timers, gm_timer_list);
	while (before != NULL && before->due_ns > timer->due_ns)
		before = TAILQ_PREV(before, gm_timer_list, entry);
	if (before != NULL)
		TAILQ_INSERT_AFTER(&loop->timers, before, timer, entry);
	else
		TAILQ_INSERT_HEAD(&loop->timers, timer, entry);
}

void gm_timer_stop(struct gm_loop *loop, struct gm_timer *timer)
{
	if (timer->due_ns == 0)
		return;
	TAILQ_REMOVE(&loop->timers, timer, entry);
	timer->due_ns = 0;
}

/* Milliseconds to wait, rounded up so that nothing fires early and the loop
 * does not spin before the time. */
static int timeout(const struct gm_loop *loop)
{
	const struct gm_timer *next = TAILQ_FIRST(&loop->timers);
	uint64_t now, ms;

	if (next == NULL)
		return -1;
	now = gm_loop_now();
	if (next->due_ns <= now)
		return 0;
	ms = (next->due_ns - now + NS_PER_MS - 1) / NS_PER_MS;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Timers that a callback sets for now wait for the next turn: descriptors get
 * theirs in between. */
static void fire(struct gm_loop *loop)
{
	uint64_t now = gm_loop_now();
	struct gm_timer *timer;

	while (!loop->stop && (timer = TAILQ_FIRST(&loop->timers)) != NULL &&
	       timer->due_ns <= now) {
		gm_timer_stop(loop, timer);
		timer->fired(timer);
	}
}

/* A wait without end is one of no known length: no limit runs meanwhile. */
static int wait_for_events(struct gm_loop *loop)
{
	int ms = timeout(loop);

	if (ms > 0)
		gm_running_clock_sleep(&running, (uint64_t)ms * NS_PER_MS);
	return epoll_wait(loop->epoll, loop->batch, GM_LOOP_BATCH, ms);
}

int gm_loop_run(struct gm_loop *loop)
{
	while (!loop->stop) {
		int n = wait_for_events(loop);

		if (n < 0 && errno != EINTR)
			return -errno;
		loop->n_batch = n > 0 ? n : 0;
		for (int i = 0; i < loop->n_batch && !loop->stop; i++) {
			struct gm_source *source = loop->batch[i].data.ptr;

			if (source != NULL)
				source->ready(source, loop->batch[i].events);
		}
		loop->n_batch = 0;
		fire(loop);
		if (loop->turned != NULL)
			loop->turned(loop);
	}
	return 0;
}

void gm_loop_stop(struct gm_loop *loop)
{
	loop->stop = true;
}

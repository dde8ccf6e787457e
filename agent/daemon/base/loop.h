/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * loop - one thread waits here for everything: descriptors and timers.
 *
 * Sources and timers are embedded in their owners, who find themselves again
 * with gm_owner().  A callback may delete and free any source or timer, its own
 * included, and add others: what was deleted is not called any more, also when
 * it was ready in the same turn.
 *
 * Delete a source before its descriptor is closed: a descriptor that was passed
 * to another process keeps its place in the kernel's table otherwise.
 *
 * Threads	the one that runs the loop
 */
#ifndef GM_DAEMON_BASE_LOOP_H
#define GM_DAEMON_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>

#define gm_owner(member, type, field) \
	((type *)(void *)((char *)(member)-offsetof(type, field)))

struct gm_source {
	int fd;
	void (*ready)(struct gm_source *source, uint32_t events); /* EPOLL* */
};

struct gm_timer {
	TAILQ_ENTRY(gm_timer) entry;
	uint64_t due_ns; /* 0: not set */
	void (*fired)(struct gm_timer *timer);
};

/* As many as there may be connections: each turn sees all that are ready. */
#define GM_LOOP_BATCH 1024

struct gm_loop {
	int epoll;
	bool stop;
	int n_batch; /* of this turn */
	struct epoll_event batch[GM_LOOP_BATCH];
	TAILQ_HEAD(gm_timer_list, gm_timer) timers; /* soonest first */
	void (*turned)(struct gm_loop *loop); /* after each turn; may be NULL */
};

/* The time of timers and limits, for the loop's thread.  This clock stands
 * still while the machine does (running_clock.h), so other processes do not
 * have it: what they see is on gm_node_clock_now(). */
uint64_t gm_loop_now(void);

/* Returns 0, or a negative errno from epoll_create1. */
int gm_loop_init(struct gm_loop *loop);
void gm_loop_exit(struct gm_loop *loop);

/*
 * gm_loop_add - call source->ready whenever one of @events is there
 *
 * Level-triggered unless @events has EPOLLET.
 *
 * Returns	0, or a negative errno from epoll_ctl
 */
int gm_loop_add(struct gm_loop *loop, struct gm_source *source,
		uint32_t events);

/* Wait for other events.  Returns as gm_loop_add(). */
int gm_loop_mod(struct gm_loop *loop, struct gm_source *source,
		uint32_t events);

/* Allowed for a source that was never added, with fd -1 for instance. */
void gm_loop_del(struct gm_loop *loop, struct gm_source *source);

/* Call timer->fired once at @due_ns or soon after it.  Setting a timer that is
 * set moves it. */
void gm_timer_set(struct gm_loop *loop, struct gm_timer *timer,
		  uint64_t due_ns);

/* Allowed for a timer that is not set. */
void gm_timer_stop(struct gm_loop *loop, struct gm_timer *timer);

/*
 * gm_loop_run - serve until gm_loop_stop()
 *
 * Returns	0, or a negative errno from epoll_wait
 */
int gm_loop_run(struct gm_loop *loop);
void gm_loop_stop(struct gm_loop *loop);

#endif

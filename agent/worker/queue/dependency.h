/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * dependency - holds back entries that wait for other rows, and wakes the
 * workers of rows that wait.
 *
 * Each queue has a timeline: one word in the session's memory that the row's
 * worker stores after each batch of completions.  An entry that waits for other
 * rows' queues stays unread at the head of its ring until their timelines have
 * reached the positions it names.  Until then its session gets no turns, and
 * the worker does not spin for it.  Entries behind it wait too; other sessions
 * go on.
 *
 * A worker with waiting heads sets its bit in the line of each row that it
 * waits for, in memory that only workers have (gm_group_page). A worker that
 * ends entries checks its own line, clears the bits, and writes the eventfds of
 * those rows. gpumapd makes and hands out the eventfds; clients have neither
 * lines nor eventfds. A wakeup only causes a recheck. If the recheck finds no
 * progress, the next bit is set after GM_WAIT_PACE_NS at the earliest. A row
 * that ends many entries therefore costs its waiters little and is not delayed
 * by them. Rechecks every GM_WAIT_LOOK_NS, and at the next deadline, find
 * changes that come without a wakeup, above all the death of a row's worker.
 *
 * The client can write all timelines of its session.  Such a write only makes
 * the client's own jobs begin too early or never.
 *
 * Edges
 *
 *   WAIT.done  a timeline is stored after the effects of its entries; a worker
 *              that sees the timeline sees the effects.
 *   WAIT.tell  a worker that ends entries stores the timeline, then loads the
 *              bits; a worker that waits sets its bit, then loads the timeline.
 *              All four are sequentially consistent, so one of the two sees the
 *              other.  tests/model/wait.pml
 */
#ifndef GM_WORKER_QUEUE_DEPENDENCY_H
#define GM_WORKER_QUEUE_DEPENDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/wire.h"
#include "agent/worker/queue/session.h"

#define GM_WAIT_LOOK_NS UINT64_C(10000000)
#define GM_WAIT_PACE_NS UINT64_C(100000)
/* Heads rechecked between turns. */
#define GM_WAIT_LOOKS 16u
/* Waiting heads delay a drain by at most this. */
#define GM_WAIT_DRAIN_NS UINT64_C(1000000000)
/* Between two requests for an eventfd. */
#define GM_WAIT_ASK_NS UINT64_C(1000000000)

struct gm_worker;

/* ---- the row that ends ------------------------------------------------- */

/* The rows that a row's worker has to wake when it ends entries. */
struct gm_wakeup_list {
	/* Line of this row. */
	struct gm_awaited *line;
	/* Eventfds of the rows, -1 until gpumapd has sent one. */
	int waker[GM_ROWS];
	/* Bitmask of rows to wake as soon as their eventfd arrives. */
	uint64_t owed[GM_ROWS / 64];
	bool owes;
};

static inline bool
gm_wakeup_list_is_awaited(const struct gm_wakeup_list *wakeups)
{
	uint64_t any = 0;

	if (!wakeups)
		return false;
	for (uint32_t i = 0; i < GM_ROWS / 64; i++)
		any |= gm_get_ordered(&wakeups->line->by[i]); /* WAIT.tell */
	return any != 0;
}

/* Wake the rows that wait for this row. */
void gm_wakeup_list_tell(struct gm_wakeup_list *wakeups);

/* Wake the worker of another row, even if that row does not wait. */
void gm_wakeup_list_call(struct gm_wakeup_list *wakeups, uint32_t row);

/* @n more entries have ended, and their completions are stored. */
static inline void gm_time_advance(struct gm_worker_session *s, uint32_t n)
{
	s->now = gm_time_make(0, gm_time_of_incarnation(s->now), s->now + n);
	gm_put_ordered(&s->timeline->ended, s->now); /* WAIT.done WAIT.tell */
}

/* A new owner takes over the queue.  Entries of the previous owner can no
 * longer be waited for. */
void gm_time_begin(struct gm_worker_session *session, uint32_t incarnation);

/* The owner is dead: entries that wait for this queue end with -EIO. */
void gm_time_end(struct gm_worker_session *session);

/* ---- the row that waits ------------------------------------------------ */

/* The waiting heads of one worker. */
struct gm_waiting {
	TAILQ_HEAD(, gm_worker_session) heads;
	uint32_t n;
	uint32_t looks; /* heads to recheck now */
	/* A wakeup came and no recheck since then has found progress. */
	bool told;
	uint64_t next_ns; /* time of the next recheck of all heads */
	uint64_t arm_ns;  /* no bit is set before this time */
	uint64_t asked[GM_ROWS / 64]; /* rows whose eventfd was requested */
	uint64_t asked_ns;            /* time from which requests count */
	/* While draining, waiting heads delay the drain until this time, on
	 * the worker's drain_clock. */
	uint64_t drain_ns;
	int own; /* this worker's own eventfd, -1 until it arrives */
};

/*
 * gm_dependency_begin - check the positions that the entry at the ring's head
 * waits for
 *
 * Returns	0		all positions are reached
 *		-EAGAIN		not yet: @session->wait holds them
 *		-EIO		a worker that it waits for has died since
 *		-EINVAL		a row that this session does not have, or a
 *				later position of its own queue
 */
int gm_dependency_begin(struct gm_worker_session *session,
			const struct gm_decoded_entry *verdict);

void gm_dependency_init(struct gm_worker *worker);

/* The session's turn ended at a head that waits.  The session gets no turns
 * until the wait is over or the device has ended a slice of it. */
void gm_dependency_enter(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* Stop waiting: the wait is over, or the session leaves or is no longer
 * served. */
void gm_dependency_leave(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* The client has rung: recheck the head.  Returns whether the session goes
 * on. */
bool gm_dependency_rung(struct gm_worker *worker,
			struct gm_worker_session *session);

/* Recheck some of the heads that are due, between turns. */
void gm_dependency_look(struct gm_worker *worker);

/* Must a recheck precede the worker's sleep?  If not, *ret_ns is how long the
 * worker may sleep, 0 for no limit. */
bool gm_dependency_is_due(struct gm_worker *worker, uint64_t *ret_ns);

/* Another worker has written this worker's eventfd. */
void gm_dependency_told(struct gm_worker *worker);

/* The eventfd of @row, which was requested, has arrived.  Takes over @fd. */
void gm_dependency_waker(struct gm_worker *worker, uint32_t row, int fd);

/* Request this worker's own eventfd, so that other workers can wake it. */
void gm_dependency_want_waker(struct gm_worker *worker);

/* Do waiting heads delay the drain? */
bool gm_dependency_holds(struct gm_worker *worker);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * dependency - what a queue's head waits for, and who tells it.
 *
 * How far a queue is, its timeline, is one word in the session's memory that
 * the row's worker stores after each batch of completions.  An entry that waits
 * for other rows' queues stays at the head of its ring, unread, until their
 * timelines have come there; its session gets no turns and nothing spins for
 * it.  What is behind it waits, too; other sessions go on.
 *
 * A worker with heads that wait sets its bit in the line of each row that it
 * waits for, in memory that only workers have (gm_group_page). Who ends entries
 * looks at its own line then, takes the bits, and writes the eventfds of those
 * rows, which gpumapd has made and handed over: clients have neither. A wake
 * says "look", no more; where it turns out that nothing has come, the next bit
 * is set only after GM_WAIT_PACE_NS, so that a row which ends much costs those
 * who wait for its end little, and is not held up by them. A look at every
 * GM_WAIT_LOOK_NS, and at the next deadline, finds what nobody tells: the death
 * of a row, above all.
 *
 * The client can write all timelines of its session.  By that it begins its own
 * jobs too early, or never; nothing else comes of it.
 *
 * Edges
 *
 *   WAIT.done  a timeline is stored after what its entries did; who sees it
 *              sees that.
 *   WAIT.tell  who ends entries stores the timeline, then looks for bits; who
 *              waits sets its bit, then looks at the timeline.  All four are
 *              sequentially consistent, so one of the two sees the other.
 *              tests/model/wait.pml
 */
#ifndef GM_WORKER_QUEUE_DEPENDENCY_H
#define GM_WORKER_QUEUE_DEPENDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/wire.h"
#include "agent/worker/queue/session.h"

#define GM_WAIT_LOOK_NS  UINT64_C(10000000)
#define GM_WAIT_PACE_NS  UINT64_C(100000)
#define GM_WAIT_LOOKS    16u                  /* at heads, between turns */
#define GM_WAIT_DRAIN_NS UINT64_C(1000000000) /* longer no drain is held up */
#define GM_WAIT_ASK_NS   UINT64_C(1000000000) /* between two requests */

struct gm_worker;

/* ---- the row that ends ------------------------------------------------- */

/* Whom a row tells that something of it has ended. */
struct gm_wakeup_list {
	struct gm_awaited *line;     /* of the row */
	int waker[GM_ROWS];          /* eventfds, -1 where there is none yet */
	uint64_t owed[GM_ROWS / 64]; /* to be told once there is */
	bool owes;
};

static inline bool
gm_wakeup_list_is_awaited(const struct gm_wakeup_list *herald)
{
	uint64_t any = 0;

	if (!herald)
		return false;
	for (uint32_t i = 0; i < GM_ROWS / 64; i++)
		any |= gm_get_ordered(&herald->line->by[i]); /* WAIT.tell */
	return any != 0;
}

/* Wake who waits. */
void gm_wakeup_list_tell(struct gm_wakeup_list *herald);

/* Wake another row, whether it waits or not. */
void gm_wakeup_list_call(struct gm_wakeup_list *herald, uint32_t row);

/* @n more entries have ended, and their completions are stored. */
static inline void gm_time_advance(struct gm_worker_session *s, uint32_t n)
{
	s->now = gm_time_make(0, gm_time_of_incarnation(s->now), s->now + n);
	gm_put_ordered(&s->timeline->ended, s->now); /* WAIT.done WAIT.tell */
}

/* A new owner goes on; its entries of before are dead. */
void gm_time_begin(struct gm_worker_session *session, uint32_t incarnation);

/* The owner is dead: what waits for this queue ends with -EIO. */
void gm_time_end(struct gm_worker_session *session);

/* ---- the row that waits ------------------------------------------------ */

/* Of one worker. */
struct gm_waiting {
	TAILQ_HEAD(, gm_worker_session) heads;
	uint32_t n;
	uint32_t looks;               /* at heads, that are due */
	bool told;                    /* since the last of them was due */
	uint64_t next_ns;             /* when all are, again */
	uint64_t arm_ns;              /* before then no bit is set */
	uint64_t asked[GM_ROWS / 64]; /* for whose wakers, */
	uint64_t asked_ns;            /* since then */
	uint64_t drain_ns; /* draining: until then heads that wait hold it up */
	int own;           /* our own waker, -1 until it is there */
};

/*
 * gm_wait_begin - an entry that waits is at the head of the ring
 *
 * Returns	0		all that it waits for has come
 *		-EAGAIN		not yet: @session->wait has it
 *		-EIO		a worker that it waits for has died since
 *		-EINVAL		a row that this session does not have, or what
 *				comes behind it in its own queue
 */
int gm_wait_begin(struct gm_worker_session *session,
		  const struct gm_decoded_entry *verdict);

void gm_wait_init(struct gm_worker *worker);

/* The session's turn has left a head that waits.  It gets no turns until it
 * need not, or the device has ended something of it. */
void gm_wait_enter(struct gm_worker *worker, struct gm_worker_session *session);

/* It leaves, or is served no longer. */
void gm_wait_leave(struct gm_worker *worker, struct gm_worker_session *session);

/* Its client has rung: look at it.  Returns whether it goes on. */
bool gm_wait_rung(struct gm_worker *worker, struct gm_worker_session *session);

/* Between turns: look at some, if any are due. */
void gm_wait_look(struct gm_worker *worker);

/* Has a look to come before the worker may sleep?  If not, how long it may. */
bool gm_wait_is_due(struct gm_worker *worker, uint64_t *ret_ns);

/* Somebody has woken us. */
void gm_wait_told(struct gm_worker *worker);

/* A waker that was asked for; @fd is ours from now on. */
void gm_wait_waker(struct gm_worker *worker, uint32_t row, int fd);

/* Have somebody be able to wake us. */
void gm_wait_want_waker(struct gm_worker *worker);

/* Do heads that wait hold up the drain? */
bool gm_wait_holds(const struct gm_worker *worker);

#endif

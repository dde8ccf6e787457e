/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * schedule - gives a turn to each user who has a session with work.
 *
 * Users take turns, and the sessions of a user share that user's turns
 * (run_queue.h).  Turns are short, so that work that arrives meanwhile waits
 * little, and they differ in size.  Rounds (drr.h) even out the difference
 * between users, and between the sessions of each user.  A user or session that
 * has used up its round gets no turn until the others have used theirs or have
 * no work.
 *
 * Where the device computes asynchronously, a session that has as many slices
 * in flight as it may have has not used up its round yet.  Sessions that have
 * used up theirs wait for it.  Otherwise a session with large requests would
 * get the device for itself.  Completions are published in any case.
 *
 * The functions are inline because every turn uses them, and are compiled
 * twice, so that neither kind of device has the cost of the other: @flies is
 * constant in each copy.
 */
#ifndef GM_WORKER_QUEUE_SCHEDULE_H
#define GM_WORKER_QUEUE_SCHEDULE_H

#include "agent/worker/collective/collective.h"
#include "agent/worker/control/async_op.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/async_exec.h"
#include "agent/worker/queue/heartbeat.h"
#include "agent/worker/queue/quantum.h"
#include "agent/worker/queue/run_queue.h"
#include "agent/worker/worker.h"

#define GM_BUSY_TURNS          32u /* turns served between two heartbeats */

#define gm_likely(condition)   __builtin_expect(!!(condition), 1)
#define gm_unlikely(condition) __builtin_expect(!!(condition), 0)

/* A function with a parameter @flies, which is constant in each of its two
 * copies. */
#define GM_TWICE static inline __attribute__((always_inline))

/* While the worker drains, entries that came after DRAIN are left to the next
 * worker. */
GM_TWICE bool gm_pass_due(struct gm_worker *w, struct gm_worker_session *s,
			  const bool flies)
{
	if (flies)
		return gm_async_exec_due(w, s);
	if (!gm_turn_due(s))
		return false;
	return !w->draining || s->work.bytes || s->second ||
	       (int32_t)(s->drain - s->entries.pos) > 0;
}

/* End the gap of an idle session that has work again. */
static inline void gm_pass_end_of_gap(struct gm_worker *w,
				      struct gm_worker_session *s)
{
	if (s->since_ns && s->budget_ns)
		gm_spin_hit(s->watched, w->now_ns - s->since_ns);
	s->since_ns = 0;
}

/* Do the work that the session's turn has left to the loop. */
static inline void gm_pass_see_to(struct gm_worker *w,
				  struct gm_worker_session *s)
{
	int rc;

	s->halted = false;
	if (s->why) {
		gm_io_events_violated(w, s);
		return;
	}
	if (s->wait.on)
		gm_dependency_enter(w, s);
	gm_async_ops_give_back(w, s);
	if (!s->pending.handle)
		return;
	rc = gm_async_ops_begin(w, s);
	if (rc < 0)
		gm_quantum_finish(s, rc);
}

GM_TWICE void gm_pass_serve(struct gm_worker *w, struct gm_worker_session *s,
			    const bool flies)
{
	const struct gm_deficit before = s->deficit;
	const int64_t had = s->user->deficit.bytes;
	int64_t cost;

	gm_run_queue_found(w, s, false);
	gm_run_queue_rotate(s);
	if (s->since_ns)
		gm_pass_end_of_gap(w, s);
	s->last = w->pass;
	s->alone = w->n_active == 1;
	if (flies)
		gm_async_exec_serve(w, s);
	else
		gm_quantum_serve(s, w->dev);
	/* Exclude work that began in this turn and is charged to both session
	 * and user already (accounting.h). */
	cost = before.bytes - s->deficit.bytes;
	if (flies)
		cost -= had - s->user->deficit.bytes;
	gm_deficit_charge(&s->user->deficit, cost,
			  (uint32_t)(before.entries - s->deficit.entries));
	/* The length of a pass grows with the number of users, and their work
	 * may be slow for its size. */
	if (gm_unlikely(++w->busy % GM_BUSY_TURNS == 0) && w->n_active > 1)
		gm_beat(w->journal, GM_CALL_LOOP);
	if (gm_unlikely(s->halted))
		gm_pass_see_to(w, s);
}

/* Sessions of a user that have work and wait for others count as idle. */
static inline void gm_pass_hold(struct gm_worker *w, struct gm_row_user *user)
{
	struct gm_worker_session *s;

	TAILQ_FOREACH(s, &user->active, turn)
	gm_run_queue_found(w, s, true);
}

/* The first of a user's sessions that has work and credit left in its round,
 * NULL if none has.  The thread accesses its memory from then on. */
GM_TWICE struct gm_worker_session *
gm_pass_next(struct gm_worker *w, struct gm_row_user *user, const bool flies)
{
	struct gm_worker_session *s;
	bool spent;

	for (;; user->round++) {
		spent = false;
		TAILQ_FOREACH(s, &user->active, turn)
		{
			gm_access_begin(&s->mapping);
			if (!gm_pass_due(w, s, flies)) {
				gm_run_queue_found(w, s, true);
				continue;
			}
			s->spent = !gm_deficit_left(&s->deficit, user->round);
			if (gm_likely(!s->spent) ||
			    (flies && gm_async_exec_has_ended(w, s)))
				return s;
			spent = true;
		}
		if (gm_likely(!spent))
			return NULL;
		if (flies && gm_async_exec_is_owed(w, user)) {
			gm_pass_hold(w, user);
			return NULL;
		}
	}
}

/* Serve one turn of a user.  Returns whether a session was served. */
GM_TWICE bool gm_pass_visit(struct gm_worker *w, struct gm_row_user *user,
			    const bool flies, bool *ret_spent)
{
	struct gm_worker_session *s = gm_pass_next(w, user, flies);

	if (!s)
		return false;
	if (gm_unlikely(!gm_deficit_left(&user->deficit, w->round))) {
		s->spent = true;
		if (!flies || !gm_async_exec_has_ended(w, s)) {
			*ret_spent = true;
			return false;
		}
	}
	gm_pass_serve(w, s, flies);
	return true;
}

/* All users with work have used up their round: begin the next one. */
static inline void gm_pass_next_round(struct gm_worker *w, const bool flies)
{
	struct gm_row_user *user;

	/* The loader's pass after this one makes that copy, or starts it. */
	if ((!flies || !w->n_in_flight) && gm_load_is_owed(w))
		return;
	/* The round goes on while a session has slices that the device has
	 * ended. */
	if (flies && gm_async_exec_wake(w))
		return;
	if (!flies || !gm_async_exec_is_owed(w, NULL)) {
		w->round++;
		w->loader.held = false;
		gm_group_look_anew(w);
		return;
	}
	TAILQ_FOREACH(user, &w->users, entry)
	gm_pass_hold(w, user);
}

/* Does work outside of turns wait for the next round?  Parts of collectives,
 * loads, and copies between rows count in the rounds, too. */
static inline bool gm_pass_is_awaited(const struct gm_worker *w)
{
	return w->parts.held || w->loader.held || w->remote_copies.held;
}

/* Serve one turn of each user.  Returns whether any user had work. */
GM_TWICE bool gm_pass(struct gm_worker *w, const bool flies)
{
	struct gm_row_user *user = TAILQ_FIRST(&w->users), *next;
	bool worked = false, spent = false;
	uint32_t round = w->round;
	GM_ACCESSES(NULL);

	w->pass++;
	for (; user; user = next) {
		/* A violation may end the user's last awake session. */
		next = TAILQ_NEXT(user, entry);
		worked |= gm_pass_visit(w, user, flies, &spent);
	}
	gm_access_begin(NULL);
	if (w->n_idle > GM_ROSTER_HOT)
		gm_run_queue_trim(w);
	if (gm_unlikely(!worked && (spent || gm_pass_is_awaited(w))) &&
	    !gm_group_due(w))
		gm_pass_next_round(w, flies);
	return worked || w->round != round;
}

#endif

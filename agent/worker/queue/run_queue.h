/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * run_queue - the sessions that are awake, in the order of their turns.
 *
 * Users take turns, and the sessions of each user take that user's turns: who
 * opens many sessions gets no more of the row by it, and nobody waits longer
 * for a turn because of that.  Whose turn comes to something is schedule.h's.
 *
 * Awake are those with work and, of those found empty, at most GM_ROSTER_HOT,
 * which are polled.  All others are parked: their clients ring.
 */
#ifndef GM_WORKER_QUEUE_RUN_QUEUE_H
#define GM_WORKER_QUEUE_RUN_QUEUE_H

#include <stdbool.h>

#include "agent/worker/worker.h"

#define GM_ROSTER_HOT 8u

/* Make the session known, before anything else here, with a purse that outlasts
 * gm_run_queue_dismiss().  Returns 0 or -ENOMEM. */
int gm_run_queue_admit(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Forget it; it is not awake. */
void gm_run_queue_dismiss(struct gm_worker *worker,
			  struct gm_worker_session *session);

/* Give it turns from now on, unless it has ended, or is stalled, or waits and
 * has nothing else to do. */
void gm_run_queue_wake(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Park it.  Returns false, and it stays awake, when something came in that
 * very moment. */
bool gm_run_queue_park(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Its client rang, and nothing is there: that has answered the value under
 * which it was parked, and nobody will ring for that value again.  Park it
 * anew. */
void gm_run_queue_park_anew(struct gm_worker *worker,
			    struct gm_worker_session *session);

/* It has its turn now: the next of its user is another's. */
void gm_run_queue_rotate(struct gm_worker_session *session);

/* Give it no more turns, without a word to the client. */
void gm_run_queue_drop(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Note what a look at it has shown. */
static inline void gm_run_queue_found(struct gm_worker *worker,
				      struct gm_worker_session *session,
				      bool empty)
{
	if (session->idle == empty)
		return;
	session->idle = empty;
	worker->n_idle += empty ? 1 : UINT32_MAX;
}

/* Park those that were served longest ago until no more than GM_ROSTER_HOT
 * are polled. */
void gm_run_queue_trim(struct gm_worker *worker);

/* We may have moved: say so to all that are awake. */
void gm_run_queue_cpu(struct gm_worker *worker);

#endif

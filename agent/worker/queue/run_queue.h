/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * run_queue - orders the awake sessions by their turns.
 *
 * Users take turns, and the sessions of a user share that user's turns.  A user
 * who opens many sessions therefore gets no larger part of the row, and other
 * users do not wait longer.  schedule.h decides which turn does any work.
 *
 * A session is awake if it has work.  Among the sessions with empty rings, at
 * most GM_ROSTER_HOT stay awake and are polled.  All others are parked: their
 * clients ring the doorbell.
 */
#ifndef GM_WORKER_QUEUE_RUN_QUEUE_H
#define GM_WORKER_QUEUE_RUN_QUEUE_H

#include <stdbool.h>

#include "agent/worker/worker.h"

#define GM_ROSTER_HOT 8u

/* Register the session, before any other call here, and give it a budget that
 * exists until after gm_run_queue_dismiss().  Returns 0 or -ENOMEM. */
int gm_run_queue_admit(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Unregister the session and take it off the list of awake sessions. */
void gm_run_queue_dismiss(struct gm_worker *worker,
			  struct gm_worker_session *session);

/* Give the session turns from now on, unless it has ended, is stalled, or waits
 * for a timeline and has no entries at the device. */
void gm_run_queue_wake(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Park the session.  Returns false, and the session stays awake, if an entry
 * arrived at that moment. */
bool gm_run_queue_park(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* The client rang the doorbell and the ring is empty.  The doorbell answered
 * the value under which the session was parked, and the client does not ring
 * for that value again, so park the session with a new value. */
void gm_run_queue_park_anew(struct gm_worker *worker,
			    struct gm_worker_session *session);

/* The session has its turn: move it behind the other sessions of its user. */
void gm_run_queue_rotate(struct gm_worker_session *session);

/* Take the session off the list of awake sessions without notifying the
 * client. */
void gm_run_queue_drop(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Record whether a poll found the session's ring empty. */
static inline void gm_run_queue_found(struct gm_worker *worker,
				      struct gm_worker_session *session,
				      bool empty)
{
	if (session->idle == empty)
		return;
	session->idle = empty;
	worker->n_idle += empty ? 1 : UINT32_MAX;
}

/* Park the idle sessions that were served longest ago until at most
 * GM_ROSTER_HOT are polled. */
void gm_run_queue_trim(struct gm_worker *worker);

/* Publish the CPU that the worker runs on to all awake sessions, if it has
 * changed. */
void gm_run_queue_cpu(struct gm_worker *worker);

#endif

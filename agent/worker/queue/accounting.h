/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * accounting - charges work that the worker does for a session outside of the
 * session's turns.
 *
 * Such work counts in the rounds (drr.h) like any other.
 */
#ifndef GM_WORKER_QUEUE_ACCOUNTING_H
#define GM_WORKER_QUEUE_ACCOUNTING_H

#include "agent/worker/queue/quantum.h"
#include "agent/worker/worker.h"

/* Has the session's user credit left in this round? */
static inline bool gm_charge_left(const struct gm_worker *worker,
				  struct gm_worker_session *session)
{
	return gm_deficit_left(&session->user->deficit, worker->round);
}

/* Charge @cost bytes of the round to the session's user only. Rounds between
 * the sessions of a user do not count such work. */
static inline void gm_charge_user(const struct gm_worker *worker,
				  struct gm_worker_session *session,
				  int64_t cost)
{
	struct gm_deficit *deficit = &session->user->deficit;

	/* Add the shares of the rounds since the last call before the
	 * charge. */
	gm_deficit_left(deficit, worker->round);
	gm_deficit_charge(deficit, cost, 0);
	gm_deficit_forgive(deficit);
}

/* Charge @cost bytes of the round to the session and to its user. */
static inline void gm_charge(const struct gm_worker *worker,
			     struct gm_worker_session *session, int64_t cost)
{
	struct gm_row_user *user = session->user;

	gm_charge_user(worker, session, cost);
	gm_deficit_left(&session->deficit, user->round);
	gm_deficit_charge(&session->deficit, cost, 0);
	gm_deficit_forgive(&session->deficit);
}

#endif

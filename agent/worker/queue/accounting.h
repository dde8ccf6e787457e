/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * accounting - work that is done for a session outside of its turns.
 *
 * It is of the rounds (drr.h) as any other.
 */
#ifndef GM_WORKER_QUEUE_ACCOUNTING_H
#define GM_WORKER_QUEUE_ACCOUNTING_H

#include "agent/worker/queue/quantum.h"
#include "agent/worker/worker.h"

/* Has its user anything left of the round? */
static inline bool gm_charge_left(const struct gm_worker *worker,
				  struct gm_worker_session *session)
{
	return gm_deficit_left(&session->guest->deficit, worker->round);
}

/* What was done costs its user @cost bytes of the round, and itself nothing:
 * sessions of a user have no rounds of such work. */
static inline void gm_charge_user(const struct gm_worker *worker,
				  struct gm_worker_session *session,
				  int64_t cost)
{
	struct gm_deficit *deficit = &session->guest->deficit;

	/* Shares of rounds that are over come before what is paid now. */
	gm_deficit_left(deficit, worker->round);
	gm_deficit_charge(deficit, cost, 0);
	gm_deficit_forgive(deficit);
}

/* @bytes of its payload have been moved. */
static inline void gm_charge(const struct gm_worker *worker,
			     struct gm_worker_session *session, uint64_t bytes)
{
	struct gm_guest *guest = session->guest;
	int64_t cost = gm_turn_price(worker->dev, session->share, bytes);

	gm_charge_user(worker, session, cost);
	gm_deficit_left(&session->deficit, guest->round);
	gm_deficit_charge(&session->deficit, cost, 0);
	gm_deficit_forgive(&session->deficit);
}

#endif

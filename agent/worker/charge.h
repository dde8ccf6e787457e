/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * charge - work that is done for a session outside of its turns.
 *
 * It is of the rounds (deficit.h) as any other.
 */
#ifndef GM_CHARGE_H
#define GM_CHARGE_H

#include "agent/worker/turn.h"
#include "agent/worker/worker.h"

/* Has its user anything left of the round? */
static inline bool gm_charge_left(const struct gm_worker *worker,
				  struct gm_session *session)
{
	return gm_deficit_left(&session->guest->deficit, worker->round);
}

/* @bytes of its payload have been moved. */
static inline void gm_charge(const struct gm_worker *worker,
			     struct gm_session *session, uint64_t bytes)
{
	struct gm_guest *guest = session->guest;
	int64_t cost = gm_turn_price(worker->dev, session->share, bytes);

	/* Shares of rounds that are over come before what is paid now. */
	gm_deficit_left(&guest->deficit, worker->round);
	gm_deficit_left(&session->deficit, guest->round);
	gm_deficit_charge(&guest->deficit, cost, 0);
	gm_deficit_charge(&session->deficit, cost, 0);
	gm_deficit_forgive(&guest->deficit);
	gm_deficit_forgive(&session->deficit);
}

#endif

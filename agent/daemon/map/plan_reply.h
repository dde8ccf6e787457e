/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_reply - a plan as the client is told it: sessions/listener.h's reply to
 * PLAN.
 */
#ifndef GM_DAEMON_MAP_PLAN_REPLY_H
#define GM_DAEMON_MAP_PLAN_REPLY_H

#include "agent/daemon/account/ledger.h"
#include "agent/plan/plan.h"
#include "shm/control.h"

struct gm_plan_reply {
	struct gm_control_plan_reply body; /* its version is the caller's */
	char *tail;                        /* the caller's to free */
	uint32_t tail_bytes;
};

/*
 * gm_plan_reply_make - all of it, before anything is done: it may need more
 * memory than there is
 *
 * ret_reply	zeroed
 *
 * Returns	0; -E2BIG: more runs than a reply may have; -ENOMEM
 */
int gm_plan_reply_make(const struct gm_plan *plan,
		       const struct gm_shortage *shortage,
		       char ret_why[GM_WHY_BYTES],
		       struct gm_plan_reply *ret_reply);

#endif

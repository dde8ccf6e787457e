/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_form - check and read a PLAN request, whatever the rows are like, and
 * write its reply: sessions/listener.h.
 */
#ifndef GM_DAEMON_MAP_PLAN_FORM_H
#define GM_DAEMON_MAP_PLAN_FORM_H

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/connection.h"
#include "gpumap.h"
#include "lib/model/plan/plan.h"
#include "shm/control.h"

/*
 * gm_plan_form_check - check the request and the lengths of its tail's parts
 *
 * Returns	0; -EINVAL or -E2BIG, with the server's refusal set
 */
int gm_plan_form_check(struct gm_connection *c,
		       const struct gm_control_plan *ask,
		       const struct gm_request *r);

/*
 * gm_plan_form_read - read the request, which was checked, as clients make it
 *
 * tail		a copy of the request's, aligned to 8 bytes
 * ret_ask	points into @ask and @tail
 */
void gm_plan_form_read(const struct gm_control_plan *ask, const char *tail,
		       struct gpumap_plan_request *ret_ask);

struct gm_plan_reply {
	struct gm_control_plan_reply body; /* its version is the caller's */
	char *tail;                        /* the caller's to free */
	uint32_t tail_bytes;
};

/*
 * gm_plan_form_reply - write all of the reply, before anything is done: it may
 * need more memory than there is
 *
 * ret_reply	zeroed
 *
 * Returns	0; -E2BIG: more runs than a reply may have; -ENOMEM
 */
int gm_plan_form_reply(const struct gm_plan *plan,
		       const struct gm_shortage *shortage,
		       char ret_why[GM_WHY_BYTES],
		       struct gm_plan_reply *ret_reply);

#endif

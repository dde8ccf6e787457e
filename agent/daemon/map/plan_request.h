/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_request - PLAN: a model placed by the clerk on what is promised to
 * nobody, and published and committed when that is asked for.
 *
 * One change at a time has the rows: what the clerk plans on is what the ledger
 * says until the slot is stored, but for memory that comes free meanwhile, and
 * for what others than us take, which the ledger sees when it judges.
 */
#ifndef GM_DAEMON_MAP_PLAN_REQUEST_H
#define GM_DAEMON_MAP_PLAN_REQUEST_H

#include "agent/daemon/base/connection.h"

/* Judge a PLAN request as far as its form goes, and have it done when it is its
 * turn.  Returns 0, or a negative status to refuse with. */
int gm_plan_change_handle(struct gm_connection *c, const struct gm_request *r);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_request - PLAN: place a model on memory that no map reserves, and
 * publish and commit the map if the client asks for it.
 *
 * The I/O thread plans.  One transaction at a time changes reservations, so the
 * plan rests on the ledger until the slot is stored, except for memory that
 * becomes free meanwhile, and for memory that other programs take, which the
 * ledger sees when it checks.
 */
#ifndef GM_DAEMON_MAP_PLAN_REQUEST_H
#define GM_DAEMON_MAP_PLAN_REQUEST_H

#include "agent/daemon/base/connection.h"

/* Check the form of a PLAN request, and have it done when it is its turn.
 * Returns 0, or a negative status to refuse with. */
int gm_plan_change_handle(struct gm_connection *c, const struct gm_request *r);

#endif

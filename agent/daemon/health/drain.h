/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * drain - take rows out of service, and bring them back.
 *
 *	FINISHING  no new work; the worker ends what is in its rings, and lends
 *		   its memory to others that drain until they have, too
 *	CLOSING    no process of the row runs; the probe closes the card
 *	DRAINED    no process of the agent has the device open
 *	RESUMING   it may be opened again; the probe has not seen it yet
 *
 * The row is DRAINING throughout, PROBING in RESUMING, and keeps its sessions,
 * maps and reservations.  A card that is split is drained with its instances,
 * also those that come meanwhile.  A drained instance is no card: the probe
 * goes on watching the others.  A drain ends with the agent.
 *
 * No waiting client waits for ever: after config.drain_row_ns, or twice that in
 * FINISHING, it gets -ETIMEDOUT.  The drain goes on; a row that was brought
 * back and not seen is LOST.
 */
#ifndef GM_DAEMON_HEALTH_DRAIN_H
#define GM_DAEMON_HEALTH_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/connection.h"
#include "agent/common/refusal.h"

struct gm_daemon;

/*
 * gm_drains_begin - take a row out of service
 *
 * Returns	0		it is drained already; done() is not called
 *		-EINPROGRESS	done() will be called, never from within this
 *		-ENODEV		no such row, or one without a worker
 *		-EBUSY		it is being brought back just now
 *		-ESHUTDOWN	the agent is draining
 *		-ENOMEM
 */
int gm_drains_begin(struct gm_daemon *d, uint32_t row,
		    struct gm_drain_wait *wait, char ret_why[GM_WHY_BYTES]);

/*
 * gm_drains_undo - bring a row back
 *
 * Clients that wait for a drain that has not ended get -ECANCELED.
 *
 * Returns	as gm_drains_begin(); 0: it is in service already
 */
int gm_drains_undo(struct gm_daemon *d, uint32_t row,
		   struct gm_drain_wait *wait, char ret_why[GM_WHY_BYTES]);

/* Wait no more.  Allowed for a wait that waits for nothing. */
void gm_drains_leave(struct gm_drain_wait *wait);
void gm_drains_connection_dropped(struct gm_connection *c, const char *why);

/* Is the row out of service, or not back yet? */
bool gm_drains_has(const struct gm_daemon *d, uint32_t row);

/* From cards.c: no process of the probe has the card open. */
void gm_drains_released(struct gm_daemon *d, uint32_t row);

/* Likewise: a row that is new.  One of a card that is drained is, too, until
 * the probe speaks of it when the card is back. */
void gm_drains_came(struct gm_daemon *d, uint32_t row);

/* Likewise: it has seen a row's device.  Returns whether the row is back by
 * that: the caller shows how it is, and then takes GM_BAR_DRAIN away. */
bool gm_drains_seen(struct gm_daemon *d, uint32_t row);

void gm_drains_exit(struct gm_daemon *d);

#endif

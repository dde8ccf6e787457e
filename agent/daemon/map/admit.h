/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admit - ROOM, PUBLISH and RESERVE: publish a layer map that a client has
 * made, or one of bytes that it asks for, reserve what the map charges, and let
 * it wait for room.
 *
 * A client plans from ROOM.  One transaction at a time changes reservations, so
 * what is admitted rests on the ledger until the slot is stored, except for
 * memory that becomes free meanwhile, and for memory that other programs take,
 * which the ledger sees when it checks.
 *
 * A map that waits has a place in the line (account/wait_line.h).  Bytes of
 * rows, and layers that lie on certain rows, are tried again by the agent.  A
 * map whose layers may lie elsewhere is its client's to make again: the client
 * is told that it is its turn, and the place stays its connection's.  A turn
 * that the client has not used after a second passes; after the second one that
 * it missed it comes last in the line, and keeps nothing from others until it
 * asks again.
 */
#ifndef GM_DAEMON_MAP_ADMIT_H
#define GM_DAEMON_MAP_ADMIT_H

#include "agent/daemon/base/connection.h"

int gm_admit_room_handle(struct gm_connection *c, const struct gm_request *r);
int gm_admit_publish_handle(struct gm_connection *c,
			    const struct gm_request *r);
int gm_admit_reserve_handle(struct gm_connection *c,
			    const struct gm_request *r);

/* Events; see base/events.h. */
void gm_admit_map_published(struct gm_daemon *d, const char *name);
void gm_admit_connection_dropped(struct gm_connection *c, const char *why);

#endif

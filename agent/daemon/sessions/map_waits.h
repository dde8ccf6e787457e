/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * map_waits - connections that wait for a change of the map.
 *
 * A client that cannot sleep on the map's futex, because it sleeps on
 * descriptors, has a connection of its own wait here.  Each request has one
 * answer, so a client gets at most one record for as many changes as there are
 * until it asks again.
 *
 * Changes are noticed after each turn of the loop, together.  Any user may wait
 * with as many connections as it may have, so GM_SEGMENT_WAKES of them are
 * answered at once, and as many in each millisecond after that.
 */
#ifndef GM_DAEMON_SESSIONS_MAP_WAITS_H
#define GM_DAEMON_SESSIONS_MAP_WAITS_H

#include "agent/daemon/base/connection.h"

struct gm_daemon;

/* Once for a server, before its first connection. */
void gm_map_waits_init(struct gm_control_server *s);

/* After each turn of the loop: answer those that wait, if the map has
 * changed. */
void gm_map_waits_look(struct gm_daemon *d);

/* Event; see base/events.h. */
void gm_map_waits_connection_dropped(struct gm_connection *c, const char *why);

/* CHANGE; see sessions/dispatch.h. */
int gm_map_waits_handle(struct gm_connection *c, const struct gm_request *r);

#endif

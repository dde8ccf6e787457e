/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * listener - the socket of clients, and their connections.
 *
 * The kernel says who a client is (SO_PEERCRED), and each connection counts
 * against its uid.  A client that breaks the protocol, stays silent before its
 * first request, or does not read its replies is dropped.  When descriptors run
 * out, new connections are turned away.
 */
#ifndef GM_DAEMON_SESSIONS_LISTENER_H
#define GM_DAEMON_SESSIONS_LISTENER_H

#include <stdbool.h>

struct gm_daemon;

/*
 * gm_listener_start - listen
 *
 * Returns	0, or a negative errno after it has logged why
 */
int gm_listener_start(struct gm_daemon *d);

/* Take no new session. */
void gm_listener_drain(struct gm_daemon *d);

/* Is there nothing left to do? */
bool gm_listener_drained(const struct gm_daemon *d);

/* Free everything; sessions end with us. */
void gm_listener_exit(struct gm_daemon *d);

#endif

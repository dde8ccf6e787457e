/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * listener - the socket that clients come through, and who has come.
 *
 * Whoever connects is known by what the kernel says of it (SO_PEERCRED) and
 * costs its uid one connection.  A peer that breaks the protocol, stays silent
 * before its first request, or does not read its replies is dropped; when
 * descriptors run out it is the newcomer that is turned away.
 */
#ifndef GM_DAEMON_SESSIONS_LISTENER_H
#define GM_DAEMON_SESSIONS_LISTENER_H

#include <stdbool.h>

struct gm_daemon;

/*
 * gm_control_start - listen
 *
 * Returns	0, or a negative errno after it has logged why
 */
int gm_control_start(struct gm_daemon *d);

/* Take no new session. */
void gm_control_drain(struct gm_daemon *d);

/* Is there nothing left to do? */
bool gm_control_drained(const struct gm_daemon *d);

/* Free everything; sessions end with us. */
void gm_control_exit(struct gm_daemon *d);

#endif

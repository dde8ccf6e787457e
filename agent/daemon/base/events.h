/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * events - what a module of a lower folder tells those above it, which it does
 * not know.
 *
 * Each event has a list of handlers, NULL behind the last, which are called in
 * their order.  All lists are in agent/daemon/subscribers.c.
 */
#ifndef GM_DAEMON_BASE_EVENTS_H
#define GM_DAEMON_BASE_EVENTS_H

struct gm_connection;
struct gm_daemon;

struct gm_events {
	/* Its socket is closed, and nothing is read from it any more.  @why:
	 * for the log of what ends with it. */
	void (*const *connection_dropped)(struct gm_connection *c,
					  const char *why);
};

void gm_events_connection_dropped(const struct gm_daemon *d,
				  struct gm_connection *c, const char *why);

#endif

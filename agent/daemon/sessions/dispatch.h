/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * requests - what a client can ask for, one handler each.
 */
#ifndef GM_DAEMON_SESSIONS_DISPATCH_H
#define GM_DAEMON_SESSIONS_DISPATCH_H

#include "agent/daemon/sessions/connection.h"

struct gm_request_kind {
	uint32_t body_bytes; /* as we know it */
	bool has_tail;
	bool has_fd; /* may carry one, of a session */

	/* Returns 0 when it has answered or will (gm_connection_wait()), or a
	 * negative status to refuse with, and server->why. */
	int (*handle)(struct gm_connection *c, const struct gm_request *r);
};

/* How to treat a type; NULL for one that we do not know. */
const struct gm_request_kind *gm_request_kind(uint16_t type);

#endif

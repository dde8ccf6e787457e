/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * trace_request - begin a trace of a row's jobs for a client, until its
 * connection ends.
 *
 * Only root and the agent's own user may, and see the jobs of all users.  A row
 * has one trace at a time.
 */
#ifndef GM_DAEMON_SESSIONS_TRACE_REQUEST_H
#define GM_DAEMON_SESSIONS_TRACE_REQUEST_H

#include "agent/daemon/base/connection.h"

/* Handler, see dispatch.h. */
int gm_trace_request_handle(struct gm_connection *c,
			    const struct gm_request *r);

/* See base/events.h. */
void gm_trace_request_connection_dropped(struct gm_connection *c);

#endif

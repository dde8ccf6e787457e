/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * usage_request - list the device memory of each session, and each user's
 * exports without a session.
 */
#ifndef GM_DAEMON_SESSIONS_USAGE_REQUEST_H
#define GM_DAEMON_SESSIONS_USAGE_REQUEST_H

#include "agent/daemon/base/connection.h"

/* Handler, see dispatch.h. */
int gm_usage_request_handle(struct gm_connection *c,
			    const struct gm_request *r);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * reservations_request - list what is reserved of each row, by whom, and how
 * much of it is in use; and the requests that wait for room.
 */
#ifndef GM_DAEMON_SESSIONS_RESERVATIONS_REQUEST_H
#define GM_DAEMON_SESSIONS_RESERVATIONS_REQUEST_H

#include "agent/daemon/base/connection.h"

/* Handlers, see dispatch.h. */
int gm_reservations_request_handle(struct gm_connection *c,
				   const struct gm_request *r);
int gm_reservations_request_waits(struct gm_connection *c,
				  const struct gm_request *r);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_handles - masks that jobs of a session name.
 *
 * MASK_USE gives a handle to a publication, and MASK_SHOW has the worker of a
 * row map that row's replica, as if it were memory that the session had
 * registered read-only: register.h keeps the handle, and asks the next
 * worker of a host's row again; on a device it is a replica for the session's
 * uid, see
 * masks/device_replicas.h.
 * Which publication it is: masks/held.h.
 */
#ifndef GM_DAEMON_SESSIONS_MASK_HANDLES_H
#define GM_DAEMON_SESSIONS_MASK_HANDLES_H

#include "agent/daemon/base/connection.h"

/* Handlers, see dispatch.h. */
int gm_mask_use_handle(struct gm_connection *c, const struct gm_request *r);
int gm_mask_show_handle(struct gm_connection *c, const struct gm_request *r);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_handles - let a session's jobs name masks by handles.
 *
 * MASK_USE gives a handle to a publication, and MASK_SHOW has a row's worker
 * map that row's replica, like memory that the session has registered
 * read-only.  register.h keeps the handle, and asks the next worker of a host
 * row again.  On a device the replica is one for the session's uid, see
 * masks/device_replicas.h.  masks/held.h keeps the publication.
 */
#ifndef GM_DAEMON_SESSIONS_MASK_HANDLES_H
#define GM_DAEMON_SESSIONS_MASK_HANDLES_H

#include "agent/daemon/base/connection.h"

/* Handlers, see dispatch.h. */
int gm_mask_use_handle(struct gm_connection *c, const struct gm_request *r);
int gm_mask_show_handle(struct gm_connection *c, const struct gm_request *r);

#endif

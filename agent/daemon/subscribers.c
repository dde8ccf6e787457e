/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/subscribers.h"

#include <stddef.h>

#include "agent/daemon/account/retry_queue.h"
#include "agent/daemon/health/drain.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/meshes/rendezvous.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/sharing/peer_access.h"
#include "agent/daemon/sharing/share_request.h"

/* Its session last: what it asked for goes first. */
static void (*const connection_dropped[])(struct gm_connection *c,
					  const char *why) = {
	gm_changes_connection_dropped,    gm_drains_connection_dropped,
	gm_room_connection_dropped,       gm_exports_connection_dropped,
	gm_mask_loans_connection_dropped, gm_rendezvous_connection_dropped,
	gm_session_connection_dropped,    NULL
};

const struct gm_events gm_subscribers = {
	.connection_dropped = connection_dropped,
};

const struct gm_worker_user *const gm_worker_users[] = {
	&gm_crossing_worker_user, &gm_mask_worker_user, &gm_share_worker_user,
	NULL
};

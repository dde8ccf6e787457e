/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * server - the socket where processes of this node find gpumap-sync.
 *
 * One record of the socket is one message (shm/control_sync.h).  A process that
 * sends what is none, or descriptors, is ended, and so is one that says nothing
 * for five seconds at first.  Each uid may have GM_SYNC_CLIENTS_OF_UID of the
 * GM_SYNC_CLIENTS connections.
 */
#ifndef GM_SYNC_SERVER_H
#define GM_SYNC_SERVER_H

#include <stdint.h>

#include "agent/sync/client.h"

#define GM_SYNC_CLIENTS        1024u
#define GM_SYNC_CLIENTS_OF_UID 256u

struct gm_sync_server;

/* Listen at the path of the configuration.  Returns 0, -EADDRINUSE, or another
 * negative errno; the log says why. */
int gm_sync_server_open(struct gm_sync *sync,
			struct gm_sync_server **ret_server);

/* When to call gm_sync_server_tick(); GM_SYNC_NEVER: not at all. */
uint64_t gm_sync_server_due(const struct gm_sync_server *server);
void gm_sync_server_tick(struct gm_sync_server *server, uint64_t now_ns);

/* Free the clients that are over.  No part is in the middle of a call. */
void gm_sync_server_reap(struct gm_sync_server *server);

/* End all clients; the parts hear of each.  NULL is allowed. */
void gm_sync_server_close(struct gm_sync_server *server);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* replica_loans - give clients the descriptors of replicas. */
#ifndef GM_DAEMON_MASKS_REPLICA_LOANS_H
#define GM_DAEMON_MASKS_REPLICA_LOANS_H

#include "agent/daemon/base/connection.h"

/* IMPORT of a replica's id: as a handler. */
int gm_mask_import_handle(struct gm_connection *c, const struct gm_request *r);

/* This connection ends: what it was given is let go. */
void gm_mask_loans_connection_dropped(struct gm_connection *c, const char *why);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admit - ROOM, PUBLISH and RESERVE: what there is of each row, and layer maps
 * that a client has made of that, or that are bytes of rows.
 *
 * Is what a client wrote something that can be asked for?  Then an admission
 * (map/admission.h) publishes it, reserves what it charges, and lets it wait.
 */
#ifndef GM_DAEMON_MAP_ADMIT_H
#define GM_DAEMON_MAP_ADMIT_H

#include "agent/daemon/base/connection.h"

int gm_admit_room_handle(struct gm_connection *c, const struct gm_request *r);
int gm_admit_publish_handle(struct gm_connection *c,
			    const struct gm_request *r);
int gm_admit_reserve_handle(struct gm_connection *c,
			    const struct gm_request *r);

#endif

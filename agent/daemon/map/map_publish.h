/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * map_publish - a change that clients ask for: publish a map by its spec.
 */
#ifndef GM_DAEMON_MAP_MAP_PUBLISH_H
#define GM_DAEMON_MAP_MAP_PUBLISH_H

#include "agent/daemon/map/layer_maps.h"
#include "shm/control.h"

struct gm_connection;

/*
 * gm_map_change_publish - publish a map when it is its turn
 *
 * header	of the request that waits for it
 * request	copied, with all that it points to
 *
 * Returns	0, -ENOMEM, -EDQUOT as gm_transactions_add()
 */
int gm_map_change_publish(struct gm_connection *c,
			  const struct gm_control *header,
			  const struct gm_map_request *request);

#endif

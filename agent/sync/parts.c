/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/parts.h"

/* The first is closed last, because others use its map. */
const struct gm_sync_part *const gm_sync_parts[] = {
	&gm_sync_agent_part, &gm_peers_part,  &gm_own_part, &gm_feed_part,
	&gm_gangs_part,      &gm_values_part, NULL,
};

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* parts - the parts of gpumap-sync; each is a source file. */
#ifndef GM_SYNC_PARTS_H
#define GM_SYNC_PARTS_H

#include "agent/sync/sync.h"

extern const struct gm_sync_part gm_sync_agent_part;
extern const struct gm_sync_part gm_peers_part;
extern const struct gm_sync_part gm_own_part;
extern const struct gm_sync_part gm_feed_part;
extern const struct gm_sync_part gm_gangs_part;
extern const struct gm_sync_part gm_values_part;

#endif

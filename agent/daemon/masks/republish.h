/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* republish - publish masks again when rows come, leave or lose replicas. */
#ifndef GM_DAEMON_MASKS_REPUBLISH_H
#define GM_DAEMON_MASKS_REPUBLISH_H

#include <stdint.h>

struct gm_daemon;

/* Masks that should have a replica on this row's device, and have none or one
 * of before its worker died, are published anew. */
void gm_mask_changes_renew(struct gm_daemon *d, uint32_t row);

/* A layer map was published: so are the masks that follow it, where its rows
 * are not those that they have. */
void gm_mask_changes_follow(struct gm_daemon *d, const char *map);

/* Publish the objects of state files that wait for rows or maps. */
void gm_mask_changes_recheck(struct gm_daemon *d);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * publish - masks that are published or replaced.
 *
 *	judge	loop	what is asked for, for which rows, and may it be?
 *	plan	clerk	the tensor, made or read into memory of ours; its hash
 *	settle	loop	spans for it: those of a mask that has the same, or new
 *	copy	clerk	what is there is compared in full, the rest written
 *	block	loop	of no slot yet
 *	file	clerk	the state file is on the disk
 *	show	loop	the slot, and the answer
 *
 * An agent that dies anywhere before "file" has published nothing, and the
 * spans are nobody's to the next one; after it the next one makes the mask
 * again.
 */
#ifndef GM_DAEMON_MASKS_PUBLISH_H
#define GM_DAEMON_MASKS_PUBLISH_H

#include "agent/daemon/base/connection.h"

struct gm_state_kind;

/* MASK_PUBLISH. */
int gm_mask_change_publish(struct gm_connection *c, const struct gm_request *r);

/* A layer map was published: so are the masks that follow it, where its rows
 * are not those that they have. */
void gm_mask_changes_follow(struct gm_daemon *d, const char *map);

/* Masks that should have a replica on this row's device, and have none or one
 * of before its worker died, are published anew. */
void gm_mask_changes_renew(struct gm_daemon *d, uint32_t row);

/* Publish the objects of state files that wait for rows or maps. */
void gm_mask_changes_recheck(struct gm_daemon *d);

extern const struct gm_state_kind gm_mask_state_kind;

#endif

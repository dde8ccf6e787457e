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

struct gm_mask_file;
struct gm_masks_rows;

/* MASK_PUBLISH. */
int gm_mask_change_publish(struct gm_connection *c, const struct gm_request *r);

/* A layer map was published: so are the masks that follow it, where its rows
 * are not those that they have. */
void gm_mask_changes_follow(struct gm_daemon *d, const char *map);

/* Masks that should have a replica on this row's device, and have none or one
 * of before its worker died, are published anew. */
void gm_mask_changes_renew(struct gm_daemon *d, uint32_t row);

/* Publish what a state file has, for these rows; or, where there are none, for
 * its map's.  gm_state_masks_stays() tells when it could not be.  Returns 0,
 * -ENOMEM. */
int gm_mask_change_restore(struct gm_daemon *d, const struct gm_mask_file *file,
			   const struct gm_masks_rows *rows);

#endif

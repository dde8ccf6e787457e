/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * held - publications of masks that sessions use.
 *
 * The spans of a publication stay as long as one is held, or as a worker has
 * them mapped, whatever becomes of the name.
 */
#ifndef GM_DAEMON_MASKS_HELD_H
#define GM_DAEMON_MASKS_HELD_H

#include <stdint.h>

#include "agent/common/refusal.h"

struct gm_daemon;
struct gm_mask_held;
struct gm_masks_block;
struct gm_replica_image;
struct gm_user;

/* Hold a publication for a user; NULL: no memory. */
struct gm_mask_held *gm_mask_held_new(struct gm_daemon *d, struct gm_user *user,
				      const struct gm_masks_block *block);

/* One of those that the user holds of this publication, or NULL. */
struct gm_mask_held *gm_mask_held_of(const struct gm_user *user,
				     const char *name, uint64_t version);

/* The replica of a row, whose span is there; of a card its id says nothing.
 * Returns 0, or -ENOENT: the row has none. */
int gm_mask_held_find(const struct gm_mask_held *held, uint32_t row,
		      char ret_why[GM_WHY_BYTES],
		      const struct gm_replica_image **ret_replica);

/* A descriptor of its node's segment, which stays ours.  Returns 0, or why
 * there is none. */
int gm_mask_held_open(const struct gm_mask_held *held,
		      const struct gm_replica_image *replica,
		      char ret_why[GM_WHY_BYTES], int *ret_fd);

/* NULL is allowed. */
void gm_mask_held_free(struct gm_mask_held *held);

#endif

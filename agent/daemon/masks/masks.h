/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * masks - published masks and the memory of their replicas.
 *
 * A block of kind mask has one reference to each span that its replicas name,
 * from before a slot names it until the block itself is free.  Rows of one node
 * have one replica between them: its bytes never change and are as near to the
 * one as to the other.
 *
 * A replica in a device's memory is made from such a span, see
 * device_replicas.h, and the block has a reference to both: from the span the
 * next one is made, by the row's next worker or by the next agent.
 */
#ifndef GM_DAEMON_MASKS_MASKS_H
#define GM_DAEMON_MASKS_MASKS_H

#include <stdbool.h>

#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/segment/validate.h"

struct gm_daemon;

/* A block of kind mask as it lies in the segment. */
struct gm_masks_block {
	struct gm_mask_image image;
	struct gm_replica_image replicas[GM_ROWS];
};

/* Read the block that starts at a unit.  A replica of a device names no span
 * where the file that has it is another one now.  Returns false where the block
 * is of another kind. */
bool gm_masks_read(const struct gm_daemon *d, uint32_t unit,
		   struct gm_masks_block *ret_block);

/* The node segments that an image's DEVICE replicas name; 0 where there are
 * none. */
uint64_t gm_masks_homes(const struct gm_daemon *d,
			const struct gm_replica_image *replicas, uint32_t n);

/* Is this the first of a block's replicas with its span? */
bool gm_masks_is_first(const struct gm_replica_image *replicas, uint32_t i);

/* Count the spans of all blocks of an adopted segment.  Returns 0, -ENOMEM, or
 * what opening the node segments returns. */
int gm_masks_adopt(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);

/* Take out what an adopted segment names whose bytes are gone. */
void gm_masks_drop_lost(struct gm_daemon *d);

/* A block is being freed: so are its replicas, if it is a mask's. */
void gm_masks_reclaim(struct gm_daemon *d, uint32_t unit);

/*
 * gm_masks_admit_quota - may a uid publish so much under this name?
 *
 * bytes	of all replicas
 *
 * Returns	0, -EDQUOT
 */
int gm_masks_admit_quota(const struct gm_daemon *d, uint32_t uid,
			 const char *name, uint64_t bytes,
			 char ret_why[GM_WHY_BYTES]);

/* Bytes of all replicas of a block. */
uint64_t gm_masks_bytes(const struct gm_masks_block *block);

/* May it read a mask of this owner?  Returns 0, -EACCES. */
int gm_masks_admit_reader(const struct gm_daemon *d, uint32_t uid,
			  uint32_t owner_uid, char ret_why[GM_WHY_BYTES]);

/* May it pin this mask?  Returns 0, -EDQUOT. */
int gm_masks_check_pin(const struct gm_daemon *d, uint32_t uid,
		       const char *name, char ret_why[GM_WHY_BYTES]);

#endif

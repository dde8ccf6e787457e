/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * block_alloc - which 64-byte units of the segment are in use.
 *
 * The bitmap is the agent's own: nothing about it is shared, and an agent that
 * starts again rebuilds it from slots and holders.  Blocks are sought from the
 * rotor on, once around, so a freed block is reused as late as the heap allows
 * and a reader that is copying it mostly gets to finish.
 *
 * Units are counted from the start of the segment, as in slot words.
 */
#ifndef GM_DAEMON_SEGMENT_BLOCK_ALLOC_H
#define GM_DAEMON_SEGMENT_BLOCK_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

struct gm_heap {
	uint32_t first; /* unit */
	uint32_t end;
	uint32_t rotor; /* first to end: where the next block is sought */
	uint32_t n_free;
	uint64_t *used; /* a bit per unit, from @first on */
};

/* Returns 0, -ENOMEM; -EINVAL unless 0 < first < end and the rotor is
 * inside. */
int gm_blocks_init(struct gm_heap *heap, uint32_t first, uint32_t end,
		   uint32_t rotor);
void gm_blocks_exit(struct gm_heap *heap);

/*
 * gm_blocks_alloc - @n neighbouring units, n > 0
 *
 * Returns	0 with ret_unit; the rotor stands behind the block
 *		-ENOSPC		there is no such gap
 */
int gm_blocks_alloc(struct gm_heap *heap, uint32_t n, uint32_t *ret_unit);

/*
 * gm_blocks_claim - mark units as used where they lie
 *
 * Returns	0
 *		-EINVAL		not inside of the heap, or n is 0
 *		-EEXIST		some of them are in use
 */
int gm_blocks_claim(struct gm_heap *heap, uint32_t unit, uint32_t n);

/* All of them must be in use. */
void gm_blocks_free(struct gm_heap *heap, uint32_t unit, uint32_t n);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * check - validate the bytes of a segment before they are used.
 *
 * A reader maps a file that another process made and that may be damaged,
 * foreign or hostile. gm_check_map() validates everything that stays the same
 * while a segment exists; gm_check_block() validates one slot word.  After both
 * no access through their results leaves the mapping, whatever it contains.
 */
#ifndef GM_CHECK_H
#define GM_CHECK_H

#include <stdbool.h>

#include "shm/layout.h"

/* A mapped segment that has been validated.  In private memory. */
struct gm_map {
	char *base;
	uint64_t bytes; /* of the mapping, at least the header's size */
	struct gm_header *header;
	struct gm_row *rows; /* GM_ROWS */
	struct gm_object_slot *objects;
	struct gm_holder *holders;
	uint32_t n_objects;
	uint32_t n_holders;
	uint64_t heap_at;
	uint64_t heap_end;
};

/*
 * gm_check_map - is this a segment that this build can read?
 *
 * base		page-aligned
 * bytes mapped at @base
 *
 * Returns	0, or -EPROTO; *ret_map is untouched then
 */
int gm_check_map(void *base, uint64_t bytes, struct gm_map *ret_map);

/*
 * gm_check_block - the block that a slot word names
 *
 * least	bytes that must lie in the heap from the block's start on
 *
 * Returns	the block's words, or NULL: no object, or out of the heap
 */
gm_a64 *gm_check_block(const struct gm_map *map, uint64_t word, uint64_t least);

/* Is [at, at + n) inside of [0, size)?  Does not wrap. */
static inline bool gm_check_span(uint64_t at, uint64_t n, uint64_t size)
{
	return n <= size && at <= size - n;
}

#endif

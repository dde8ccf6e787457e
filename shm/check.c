/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/check.h"

#include <errno.h>

#include "shm/seq.h"

_Static_assert(GM_MOVING_BUFFERS == GM_SEQ_BUFFERS, "one rule for both");

/* Checks that hold for every major: is this a segment of gpumap, of any
 * layout? */
static int check_header(const void *base, uint64_t bytes)
{
	const struct gm_header *header = base;

	if (bytes < sizeof(*header))
		return -EPROTO;
	if (gm_get(&header->magic) != GM_MAGIC ||
	    gm_get(&header->byte_order) != GM_BYTE_ORDER)
		return -EPROTO;
	return 0;
}

int gm_check_map(void *base, uint64_t bytes, struct gm_map *ret_map)
{
	struct gm_header *header = base;
	struct gm_map map = { .base = base, .bytes = bytes, .header = header };
	uint64_t size, heap_bytes;

	if (check_header(base, bytes) != 0)
		return -EPROTO;
	if (gm_get(&header->major) != GM_LAYOUT_MAJOR ||
	    gm_get(&header->layout) != gm_layout_hash())
		return -EPROTO;

	/* Equal hashes make these constants; a damaged file may still lie. */
	size = gm_get(&header->size);
	if (size > bytes || size > GM_SEGMENT_MAX || size < GM_HEAP_AT ||
	    gm_get(&header->n_rows) != GM_ROWS ||
	    gm_get(&header->rows_at) != GM_ROWS_AT ||
	    gm_get(&header->n_objects) != GM_OBJECTS ||
	    gm_get(&header->objects_at) != GM_OBJECTS_AT ||
	    gm_get(&header->n_holders) != GM_HOLDERS ||
	    gm_get(&header->holders_at) != GM_HOLDERS_AT ||
	    gm_get(&header->heap_at) != GM_HEAP_AT)
		return -EPROTO;
	heap_bytes = gm_get(&header->heap_bytes);
	if (!gm_check_span(GM_HEAP_AT, heap_bytes, size))
		return -EPROTO;

	map.rows = (struct gm_row *)(void *)(map.base + GM_ROWS_AT);
	map.objects =
		(struct gm_object_slot *)(void *)(map.base + GM_OBJECTS_AT);
	map.holders = (struct gm_holder *)(void *)(map.base + GM_HOLDERS_AT);
	map.n_objects = GM_OBJECTS;
	map.n_holders = GM_HOLDERS;
	map.heap_at = GM_HEAP_AT;
	map.heap_end = GM_HEAP_AT + heap_bytes;
	*ret_map = map;
	return 0;
}

gm_a64 *gm_check_block(const struct gm_map *map, uint64_t word, uint64_t least)
{
	uint64_t at = (uint64_t)gm_seq_unit(word) * GM_UNIT;

	if (at < map->heap_at || !gm_check_span(at, least, map->heap_end))
		return NULL;
	return (gm_a64 *)(void *)(map->base + at);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/segment/block_alloc.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define WORD_BITS 64u

static bool is_used(const struct gm_heap *heap, uint32_t unit)
{
	uint32_t bit = unit - heap->first;

	return heap->used[bit / WORD_BITS] >> bit % WORD_BITS & 1;
}

static void flip(struct gm_heap *heap, uint32_t unit, uint32_t n)
{
	for (uint32_t bit = unit - heap->first; n > 0; n--, bit++)
		heap->used[bit / WORD_BITS] ^= UINT64_C(1) << bit % WORD_BITS;
}

int gm_blocks_init(struct gm_heap *heap, uint32_t first, uint32_t end,
		   uint32_t rotor)
{
	uint32_t words;

	if (first == 0 || first >= end || rotor < first || rotor > end)
		return -EINVAL;
	words = (end - first + WORD_BITS - 1) / WORD_BITS;
	*heap = (struct gm_heap){ .first = first,
				  .end = end,
				  .rotor = rotor,
				  .n_free = end - first,
				  .used = calloc(words, sizeof(uint64_t)) };
	return heap->used != NULL ? 0 : -ENOMEM;
}

void gm_blocks_exit(struct gm_heap *heap)
{
	free(heap->used);
	heap->used = NULL;
}

/* The first unit from @at on, and before @end, that is used or that is not;
 * @end when there is none.  Whole words of the other sort are skipped. */
static uint32_t seek(const struct gm_heap *heap, uint32_t at, uint32_t end,
		     bool used)
{
	while (at < end) {
		uint32_t bit = at - heap->first;
		uint64_t word = heap->used[bit / WORD_BITS];
		uint32_t next;

		if (!used)
			word = ~word;
		word >>= bit % WORD_BITS;
		if (word != 0) {
			next = at + (uint32_t)__builtin_ctzll(word);
			return next < end ? next : end;
		}
		at += WORD_BITS - bit % WORD_BITS;
	}
	return end;
}

/* A gap of @n units that starts in [at, end); 0 when there is none. */
static uint32_t gap(const struct gm_heap *heap, uint32_t at, uint32_t end,
		    uint32_t n)
{
	while (at < end) {
		uint32_t start = seek(heap, at, end, false);
		uint32_t limit;

		if (start == end || n > heap->end - start)
			return 0;
		limit = start + n;
		at = seek(heap, start, limit, true);
		if (at == limit)
			return start;
	}
	return 0;
}

int gm_blocks_alloc(struct gm_heap *heap, uint32_t n, uint32_t *ret_unit)
{
	uint32_t unit;

	assert(n > 0);
	if (n > heap->n_free)
		return -ENOSPC;
	unit = gap(heap, heap->rotor, heap->end, n);
	if (unit == 0)
		unit = gap(heap, heap->first, heap->rotor, n);
	if (unit == 0)
		return -ENOSPC;
	flip(heap, unit, n);
	heap->n_free -= n;
	heap->rotor = unit + n;
	*ret_unit = unit;
	return 0;
}

int gm_blocks_claim(struct gm_heap *heap, uint32_t unit, uint32_t n)
{
	if (n == 0 || unit < heap->first || unit > heap->end ||
	    n > heap->end - unit)
		return -EINVAL;
	if (seek(heap, unit, unit + n, true) != unit + n)
		return -EEXIST;
	flip(heap, unit, n);
	heap->n_free -= n;
	return 0;
}

void gm_blocks_free(struct gm_heap *heap, uint32_t unit, uint32_t n)
{
	assert(n > 0 && unit >= heap->first && unit < heap->end &&
	       n <= heap->end - unit);
	for (uint32_t i = 0; i < n; i++)
		assert(is_used(heap, unit + i));
	flip(heap, unit, n);
	heap->n_free += n;
}

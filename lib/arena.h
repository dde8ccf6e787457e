/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * arena - allocate parts of a session's shared memory, and back it with huge
 * pages.
 */
#ifndef GM_ARENA_H
#define GM_ARENA_H

#include <stdbool.h>
#include <stdint.h>

/* ---- arena -------------------------------------------------------------- */

/* The allocator of one row's range.  Its nodes lie in private memory. */
struct gm_extent;
struct gm_arena {
	struct gm_extent *root;
	uint64_t start; /* of the range, in memory: aligns to blocks */
	uint64_t bytes; /* of the range */
	uint64_t dice;  /* state of the random priorities */
};

#define GM_ARENA_ALIGN UINT64_C(64)
#define GM_ARENA_LARGE (UINT64_C(2) << 20) /* a block: one huge page */

/* Returns 0 or -ENOMEM. */
int gm_arena_init(struct gm_arena *arena, uint64_t start, uint64_t bytes);
void gm_arena_fini(struct gm_arena *arena);

/*
 * gm_arena_take - allocate @bytes
 *
 * An allocation of GM_ARENA_LARGE bytes or more starts at a block where there
 * is room for that, and otherwise at a page.  Smaller ones start at multiples
 * of GM_ARENA_ALIGN.
 *
 * Returns	0 with an offset in the range, or -ENOMEM
 */
int gm_arena_take(struct gm_arena *arena, uint64_t bytes, uint64_t *ret_at);

/* Returns 0, or -EINVAL when nothing was taken at @at. */
int gm_arena_give(struct gm_arena *arena, uint64_t at);

#endif

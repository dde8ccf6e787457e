/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * arena - who has which bytes of a session's memory, and its huge pages.
 */
#ifndef GM_ARENA_H
#define GM_ARENA_H

#include <stdbool.h>
#include <stdint.h>

/* ---- arena -------------------------------------------------------------- */

/* Who has which bytes of one row's range.  Nodes lie in private memory. */
struct gm_extent;
struct gm_arena {
	struct gm_extent *root;
	uint64_t start; /* of the range, in memory that is cut into blocks */
	uint64_t bytes; /* of the range */
	uint64_t dice;  /* state of the priorities */
};

#define GM_ARENA_ALIGN UINT64_C(64)
#define GM_ARENA_LARGE (UINT64_C(2) << 20) /* a block: of one huge page */

/* Returns 0 or -ENOMEM. */
int gm_arena_init(struct gm_arena *arena, uint64_t start, uint64_t bytes);
void gm_arena_fini(struct gm_arena *arena);

/*
 * gm_arena_take - room of this size
 *
 * From GM_ARENA_LARGE on it starts with a block where there is room for that,
 * with a page where not; smaller ones start at multiples of GM_ARENA_ALIGN.
 *
 * Returns	0 with an offset in the range, or -ENOMEM
 */
int gm_arena_take(struct gm_arena *arena, uint64_t bytes, uint64_t *ret_at);

/* Returns 0, or -EINVAL when nothing was taken at @at. */
int gm_arena_give(struct gm_arena *arena, uint64_t at);

/* ---- huge pages --------------------------------------------------------- */

/* Which blocks of an arena have one.  Starts as zeroes. */
struct gm_huge {
	uint64_t *made; /* a bit each */
	bool refused;   /* by the kernel, which is not asked again */
};

/* Map a file, where its blocks can be mapped as such.  Returns what mmap()
 * does. */
void *gm_huge_map(int fd, uint64_t bytes);

/* For an arena of @bytes.  Returns 0 or -ENOMEM. */
int gm_huge_init(struct gm_huge *huge, uint64_t bytes);
void gm_huge_fini(struct gm_huge *huge);

/* Have the whole blocks in [at, at + bytes) of @arena there, as huge pages.
 * Where the kernel does not give them, memory comes when it is touched.  Cost:
 * a load for a block that was made before. */
void gm_huge_fill(struct gm_huge *huge, char *arena, uint64_t at,
		  uint64_t bytes);

#endif

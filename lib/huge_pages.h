/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * huge_pages - memory for allocations of an arena, in huge pages where they are
 * large.
 *
 * The process that touches a page of shared memory first pays for it: the page
 * counts for that process's control group.  The client's arena has to count for
 * the client's, and not for gpumapd's, whose workers touch it for jobs.
 */
#ifndef GM_LIB_HUGE_PAGES_H
#define GM_LIB_HUGE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* The parts of an arena that have memory.  Starts as zeroes. */
struct gm_huge {
	char *arena;
	uint64_t range_bytes; /* of each row */
	uint64_t *made;       /* a bit for each block that has a huge page */
	uint64_t *had;        /* a bit for each chunk of a range */
	bool refused;         /* the kernel gives no huge pages */
	bool unknown;         /* the kernel cannot populate (before 5.14) */
};

/* Map a file at an address where its blocks can become huge pages.  Returns
 * what mmap() does. */
void *gm_huge_map(int fd, uint64_t bytes);

/* Prepare for an arena of so many ranges.  Returns 0 or -ENOMEM. */
int gm_huge_init(struct gm_huge *huge, char *arena, uint32_t n_rows,
		 uint64_t range_bytes);

void gm_huge_fini(struct gm_huge *huge);

/*
 * gm_huge_fill - populate [at, at + bytes) of the arena, in one row's range
 *
 * Whole blocks of GM_ARENA_LARGE have huge pages if the kernel gives them; the
 * rest is populated in chunks of 64 KiB.  Before Linux 5.14 all but the blocks
 * appears when it is touched.
 *
 * Returns	0, or -ENOMEM if there is no memory for it
 * Cost		a load for a block or a chunk that was populated before
 */
int gm_huge_fill(struct gm_huge *huge, uint64_t at, uint64_t bytes);

/* Memory of [at, at + bytes), in one row's range, was given back. */
void gm_huge_forget(struct gm_huge *huge, uint64_t at, uint64_t bytes);

#endif

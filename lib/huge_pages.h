/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* huge_pages - back blocks of an arena by huge pages. */
#ifndef GM_LIB_HUGE_PAGES_H
#define GM_LIB_HUGE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* The blocks of an arena that have a huge page.  Starts as zeroes. */
struct gm_huge {
	uint64_t *made; /* a bit each */
	bool refused;   /* the kernel refused; do not ask again */
};

/* Map a file at an address where its blocks can become huge pages.  Returns
 * what mmap() does. */
void *gm_huge_map(int fd, uint64_t bytes);

/* Prepare for an arena of @bytes.  Returns 0 or -ENOMEM. */
int gm_huge_init(struct gm_huge *huge, uint64_t bytes);

void gm_huge_fini(struct gm_huge *huge);

/* Populate the whole blocks in [at, at + bytes) of @arena with huge pages.
 * Where the kernel refuses, pages appear when they are first touched.  Cost: a
 * load for a block that was made before. */
void gm_huge_fill(struct gm_huge *huge, char *arena, uint64_t at,
		  uint64_t bytes);

#endif

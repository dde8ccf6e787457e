/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * reads - how fast a file can be read here, by loops that do nothing else.
 *
 * Past the page cache by an io_uring of its own, with so many reads of one size
 * under way, straight to where the bytes belong; or by read(2), with nothing of
 * the file in the cache when it begins.
 */
#ifndef GM_READS_H
#define GM_READS_H

#include <stdint.h>

#define GM_READS_DEPTH 64u

struct gm_reads {
	int fd; /* O_DIRECT for gm_reads_ring() */
	char *to;
	uint64_t bytes; /* a multiple of @block */
	uint32_t block; /* a multiple of 4096, as @to is */
	uint32_t depth; /* at most GM_READS_DEPTH */
};

/*
 * gm_reads_ring - by io_uring
 *
 * The memory is registered with the ring where the kernel lets us: not so much
 * of it may be locked, maybe.
 *
 * ret_ns	from the first read's submission to the last one's end
 *
 * Returns	0, -EIO: a read failed or was short, or what the kernel says of
 *		a ring
 */
int gm_reads_ring(const struct gm_reads *reads, double *ret_ns);

/* By read(2), @reads->block bytes each.  Returns 0 or as read(2). */
int gm_reads_plain(const struct gm_reads *reads, double *ret_ns);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * reads - measure how fast this machine reads a file, by loops that do nothing
 * else.
 *
 * The loops read past the page cache by an io_uring of their own, with several
 * reads of one size under way, directly to the destination; or by read(2), with
 * nothing of the file in the cache at the start.
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
 * gm_reads_ring - read by io_uring
 *
 * The memory is registered with the ring if the kernel permits that: the limit
 * of locked memory may be too low.
 *
 * ret_ns	from the first read's submission to the last one's end
 *
 * Returns	0, -EIO: a read failed or was short, or the kernel's error for a
 *		ring
 */
int gm_reads_ring(const struct gm_reads *reads, double *ret_ns);

/* Read by read(2), @reads->block bytes each.  Returns 0 or as read(2). */
int gm_reads_plain(const struct gm_reads *reads, double *ret_ns);

#endif

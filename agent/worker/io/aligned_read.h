/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * aligned_read - a range of a file as reads that a file system takes past its
 * cache.
 *
 * Such a read begins and ends at a multiple of the storage's blocks and goes to
 * memory that is aligned so, too.  Blocks are not asked for: pages will do for
 * all of them.  What a read brings besides the bytes that were wanted, a head
 * before them and a tail behind, stays where it was read to.
 *
 * Reads may be short.  What is missing is read again from the last whole page
 * on; a read that brings nothing new has come to the end of the file.
 *
 * Pure.
 */
#ifndef GM_WORKER_IO_ALIGNED_READ_H
#define GM_WORKER_IO_ALIGNED_READ_H

#include <stdint.h>

#include "agent/common/wire.h"

/* What is still to be read of a file. */
struct gm_aligned_read {
	uint64_t from;
	uint64_t left;
};

/* One read.  Offsets are those of the file and of its buffer. */
struct gm_read {
	uint64_t from;  /* in the file, aligned, of the buffer's first byte */
	uint32_t bytes; /* aligned, at most what the buffer has */
	uint32_t head;  /* of them before the first that is wanted */
	uint32_t want;  /* bytes that are */
	uint32_t begun; /* where the last read began, aligned */
	uint32_t got;   /* bytes from the buffer's first on that are there */
};

enum gm_read_is { GM_READ_WHOLE, GM_READ_SHORT, GM_READ_AT_END };

/*
 * gm_aligned_read_next - take the next read off
 *
 * cut		with something left; no read of it reaches past 2^63 - 1
 * buffer_bytes	of the buffer, aligned
 */
void gm_aligned_read_next(struct gm_aligned_read *cut, uint32_t buffer_bytes,
			  struct gm_read *ret_read);

/*
 * gm_aligned_read_took - a read has brought @bytes from @read->begun on
 *
 * Returns	GM_READ_WHOLE	all that is wanted is there
 *		GM_READ_SHORT	read again, from @read->begun on, which has
 *				moved
 *		GM_READ_AT_END	the file has no more
 */
enum gm_read_is gm_aligned_read_took(struct gm_read *read, uint32_t bytes);

#endif

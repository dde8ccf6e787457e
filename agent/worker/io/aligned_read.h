/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * aligned_read - splits a range of a file into reads that bypass the file
 * system's cache.
 *
 * Such a read begins and ends at a multiple of the storage's block size, and
 * its buffer is aligned likewise.  Page alignment satisfies every block size,
 * so the block size is not queried.  The bytes around the wanted ones, a head
 * before and a tail behind, stay in the buffer.
 *
 * Reads may be short.  The missing part is read again from the last whole page
 * on.  A read without new bytes has reached the end of the file.
 *
 * The functions are pure.
 */
#ifndef GM_WORKER_IO_ALIGNED_READ_H
#define GM_WORKER_IO_ALIGNED_READ_H

#include <stdint.h>

#include "agent/common/wire.h"

/* The part of a file that is still to be read. */
struct gm_aligned_read {
	uint64_t from;
	uint64_t left;
};

/* One read.  Offsets are in the file and in its buffer. */
struct gm_read {
	uint64_t from;  /* file offset of the buffer's first byte, aligned */
	uint32_t bytes; /* aligned, at most the buffer's size */
	uint32_t head;  /* bytes before the first wanted byte */
	uint32_t want;  /* wanted bytes */
	uint32_t begun; /* buffer offset of the last read, aligned */
	uint32_t got;   /* bytes present from the start of the buffer */
};

enum gm_read_is { GM_READ_WHOLE, GM_READ_SHORT, GM_READ_AT_END };

/*
 * gm_aligned_read_next - take the next read off the range
 *
 * cut		not empty; no read of it reaches past 2^63 - 1
 * buffer_bytes	of the buffer, aligned
 */
void gm_aligned_read_next(struct gm_aligned_read *cut, uint32_t buffer_bytes,
			  struct gm_read *ret_read);

/*
 * gm_aligned_read_took - account for a read of @bytes from @read->begun on
 *
 * Returns	GM_READ_WHOLE	all wanted bytes are present
 *		GM_READ_SHORT	read again, from @read->begun on, which has
 *				moved
 *		GM_READ_AT_END	the file has no more
 */
enum gm_read_is gm_aligned_read_took(struct gm_read *read, uint32_t bytes);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * task - one operator over elements, as a backend is given it.
 *
 * The worker makes a task from a queue entry after it has validated the
 * offsets and turned them into pointers: a task holds no unchecked value of a
 * client.
 *
 * Arithmetic is that of gpumap.h, which README.md has in detail: a result
 * depends neither on the CPU, nor on the slices or on the rows it was computed
 * by.  (Which NaN comes out is the one thing left open.)
 *
 * Overlap.  dst and src may be the same elements where GM_OPS_IN_PLACE says
 * so.  The worker refuses every other overlap by gm_task_overlaps().
 */
#ifndef GM_TASK_H
#define GM_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap.h"
#include "shm/ops.h"

struct gm_kernel;
struct gm_reduce;

struct gm_task {
	uint32_t op;     /* enum gpumap_op */
	uint32_t dtype;  /* enum gpumap_dtype, of src */
	uint32_t to;     /* CAST: of dst; else 0, and dst is as src */
	void *dst;       /* n elements, NULL for NOP; any alignment.  One of a
			  * reduction, whose dtype is gm_ops_result()'s */
	const void *src; /* n elements, NULL for NOP and FILL */
	/* The same as the device names it, for a backend with start(): from
	 * gm_buffer.address, when dst or src is NULL, or gm_region.address.  0:
	 * it does not reach it, and what there is goes through staging. */
	uint64_t dst_address;
	uint64_t src_address;
	const void *mask; /* mask_n elements, likewise; NULL for most */
	uint64_t mask_address;
	uint32_t mask_n;
	uint32_t mask_first; /* below mask_n: goes with element 0 */
	uint64_t n;          /* elements of the whole task */
	/* For a reduction, and a backend with run(): the state of its slices so
	 * far; NULL where all of it is one slice. */
	struct gm_reduce *so_far;
	/* For RUN, and a backend with start(): the loaded image, see device.h.
	 * mask and mask_n are its parameters, and how many bytes they have. */
	const struct gm_kernel *kernel;
	union {
		double alpha;     /* SCALE, AXPY */
		uint64_t pattern; /* FILL: one element, in the low bytes; RUN:
				   * bytes of an item, of src:32 and of dst:32
				   * above */
	};
};

/* Bytes of a task's operands, and of an element of each; 0 where it has none.
 * For RUN an item is an element, and either operand may be none. */
struct gm_task_sizes {
	uint64_t dst, src, mask;
	uint32_t dst_each, src_each, mask_each;
	uint32_t
		each; /* what an element counts in a slice: the larger, but of a
			* reduction src_each */
};

/*
 * gm_task_sizes - how much memory a task has, by its op, dtypes and n
 *
 * Returns	0
 *		-EINVAL		no such dtype
 *		-EOVERFLOW	more than 2^63 - 1 bytes, which no memory has
 */
int gm_task_sizes(const struct gm_task *task, struct gm_task_sizes *ret_sizes);

/* dst shares bytes with src or the mask, and the operator does not allow it. */
bool gm_task_overlaps(const struct gm_task *task);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * task - one operator over elements, as a backend is given it.
 *
 * The worker makes a task from a queue entry after it has validated the
 * offsets and turned them into pointers: a task holds no unchecked value of a
 * client.  One table here holds the checks that do not need the memory.
 *
 * Arithmetic is that of gpumap.h, which agent/cuda/operators.h has in detail: a
 * result depends neither on the CPU, nor on the slices or on the rows it was
 * computed by.  (Which NaN comes out is the one thing left open.)
 *
 * Overlap.  dst and src may be the same elements where GM_TASK_IN_PLACE says
 * so.  The worker refuses every other overlap by gm_task_overlaps().
 */
#ifndef GM_TASK_H
#define GM_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap.h"

struct gm_kernel;
struct gm_reduce;

struct gm_task {
	uint32_t op;     /* enum gpumap_op */
	uint32_t dtype;  /* enum gpumap_dtype, of src */
	uint32_t to;     /* CAST: of dst; else 0, and dst is as src */
	void *dst;       /* n elements, NULL for NOP; any alignment.  One of a
			  * reduction, whose dtype is gm_op_result()'s */
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

/* Is it one rank's part of a collective? */
static inline bool gm_op_is_collective(uint32_t op)
{
	return op >= GPUMAP_OP_BARRIER && op <= GPUMAP_OP_RECV;
}

/* Bytes of one element, 0 for a number that is no dtype. */
uint32_t gm_task_dtype_bytes(uint32_t dtype);

/* "copy" and so on, NULL for a number that is no operator. */
const char *gm_op_name(uint32_t op);

/* The use of each operand of an operator: GM_TASK_*, 0 for NOP and unknown. */
uint32_t gm_op_memory(uint32_t op);

#define GM_TASK_READS_SRC  (UINT32_C(1) << 0)
#define GM_TASK_READS_DST  (UINT32_C(1) << 1)
#define GM_TASK_WRITES_DST (UINT32_C(1) << 2)
#define GM_TASK_IN_PLACE   (UINT32_C(1) << 3) /* dst may be src */
#define GM_TASK_CASTS      (UINT32_C(1) << 4) /* it has a dtype of dst, `to` */
#define GM_TASK_REDUCES    (UINT32_C(1) << 5) /* dst is one element */
#define GM_TASK_READS_MASK (UINT32_C(1) << 6)

/*
 * gm_op_takes - does the operator exist for elements of this dtype
 *
 * to		of no account without GM_TASK_CASTS
 *
 * Returns	0
 *		-EOPNOTSUPP	no such operator
 *		-EINVAL		no such dtype, or one it is not made for
 */
int gm_op_takes(uint32_t op, uint32_t dtype, uint32_t to);

/* The dtype of dst: enum gpumap_dtype.  For an operator and dtypes that go
 * together. */
uint32_t gm_op_result(uint32_t op, uint32_t dtype, uint32_t to);

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

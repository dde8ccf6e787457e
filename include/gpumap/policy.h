/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/policy.h - is a device worth it for a piece of work?
 *
 * Work that is too small is done sooner by the thread that has it than by a
 * device.  The agent publishes the least size of each kind of work, for each
 * row: defaults, until an administrator has gpumapctl calibrate measure them.
 * gpumap_worth() of gpumap/view.h compares a size with them.
 */
#ifndef GPUMAP_POLICY_H
#define GPUMAP_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kind of work, and the unit of its size.  gpumap has no operations for the
 * first three: they are for programs that have their own. */
enum gpumap_work {
	/* a product of matrices; gpumap_flops(m, n, k), times the batch */
	GPUMAP_WORK_GEMM = 0,
	/* a Cholesky factorisation; the order of the matrix.  A batch is also
	 * worth it if its order^3 / 3 for each are as GEMM. */
	GPUMAP_WORK_POTRF = 1,
	/* X'WX of a diagonal W and n rows of p columns; gpumap_flops(n, p,
	 * p) */
	GPUMAP_WORK_XTWX = 2,
	/* The operations of jobs; elements, as in gpumap_job.n. */
	GPUMAP_WORK_FILL = 3,
	GPUMAP_WORK_COPY = 4,
	GPUMAP_WORK_SCALE = 5,
	GPUMAP_WORK_AXPY = 6,
	GPUMAP_WORK_CAST = 7,
	GPUMAP_WORK_REDUCE = 8, /* SUM, MIN, MAX */
	GPUMAP_WORK_MASK = 9    /* MASK_ADD, MASK_BOOL */
};

#define GPUMAP_WORKS     10u /* kinds */
#define GPUMAP_WORKS_MAX 13u /* that later versions may have */

/* The thresholds of one row. */
struct gpumap_policy {
	size_t size;         /* sizeof(struct gpumap_policy) */
	uint32_t row;        /* set by gpumap_policy_read() */
	uint32_t generation; /* of the row, see gpumap_device */
	/* CLOCK_REALTIME: when they were set; 0: they are the defaults */
	uint64_t calibrated_ns;
	/* by enum gpumap_work: the least size of which the row is worth it;
	 * UINT64_MAX: none is */
	uint64_t least[GPUMAP_WORKS_MAX];
};

/* Filled by the library; callers must not use the fields. */
struct gpumap_policy_view {
	const uint64_t *least; /* of one row, in the segment */
	uint32_t row;
	uint32_t reserved;
	uint64_t spare[2];
};

/*
 * gpumap_flops - the operations of a product of an m * k and a k * n matrix
 *
 * Returns	2 * m * n * k, or UINT64_MAX if that is more
 * Cost		three multiplications
 * Threads	any; async-signal-safe
 */
static inline uint64_t gpumap_flops(uint64_t m, uint64_t n, uint64_t k)
{
	uint64_t flops;

	if (__builtin_mul_overflow(m, n, &flops))
		return k == 0 ? 0 : UINT64_MAX;
	if (__builtin_mul_overflow(flops, k, &flops) ||
	    __builtin_mul_overflow(flops, (uint64_t)2, &flops))
		return UINT64_MAX;
	return flops;
}

/*
 * gpumap_work_floor - the size below which no device is worth it
 *
 * Returns	the least size that a calibration considers
 * Cost		none where @work is a constant
 * Threads	any; async-signal-safe
 */
static inline uint64_t gpumap_work_floor(uint32_t work)
{
	switch (work) {
	case GPUMAP_WORK_GEMM:
	case GPUMAP_WORK_XTWX:
		return UINT64_C(2) * 64 * 64 * 64;
	case GPUMAP_WORK_POTRF:
		return 117; /* p * p * p / 3 is as much from there on */
	default:
		return 4096;
	}
}

/*
 * gpumap_policy_view - prepare to ask whether one row is worth it
 *
 * The view follows the row's thresholds when they change, also when the row is
 * given to another device, and is valid as long as the attachment.
 *
 * ret_view	receives the view, for gpumap_worth()
 *
 * Returns	0, -ENODEV: no such row
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_policy_view(const struct gpumap *map, uint32_t row,
				  struct gpumap_policy_view *ret_view);

/*
 * gpumap_policy_read - read the thresholds of one row
 *
 * ret_policy	set its @size before the call.  While the agent changes the
 *		thresholds some may be the earlier ones.
 *
 * Returns	0
 *		-ENODEV		no such row
 *		-EAGAIN, -EPROTO	as gpumap_device_read()
 *		-E2BIG, -EINVAL	ret_policy->size is more than 4096 bytes, or
 *				smaller than its first fields
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_policy_read(const struct gpumap *map, uint32_t row,
				  struct gpumap_policy *ret_policy);

/*
 * gpumap_policy_set - set the thresholds of one row, and of all like it
 *
 * The agent keeps them by the facts that make a device what it is: its name,
 * size, versions and so on, but neither its place nor its load.  Rows of equal
 * devices share them, and they outlast the agent and the machine's restart.
 *
 * policy	of a row and its generation; a threshold of 0, or as large as
 *		the default, is the default, also where a later version has
 *		another; if all are, the device has none of its own any more.
 *		@calibrated_ns is ignored
 *
 * Returns	0		it is done
 *		-EPERM		only root and the agent's own user may
 *		-ENODEV		no such row
 *		-EAGAIN		the row was given to another device
 *		-EINVAL		the struct is NULL, or has no size
 *		-E2BIG		a field, or a kind of work, newer than this
 *				library
 *		-ENOSPC, -EROFS, -EIO	the agent's disk; nothing has changed
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOPNOTSUPP, -EPROTO,
 *		-EOWNERDEAD
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, and a write to the agent's
 *		disk
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_policy_set(struct gpumap *map,
				 const struct gpumap_policy *policy);

#ifdef __cplusplus
}
#endif
#endif

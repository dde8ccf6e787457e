/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ops - what each operation takes: its name, operands and dtypes.
 *
 * One table, for the library, which checks and packs jobs, for the worker,
 * which validates entries, and for its backends.  An operation that is missing
 * here is known to none of them.
 */
#ifndef GM_OPS_H
#define GM_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap/job.h"

/* One above the last operation. */
#define GM_OPS (GPUMAP_OP_RECV + 1u)

/* The fields of a job or an entry that the operation uses, and how. */
enum {
	GM_OPS_DST = 1 << 0, /* it is written */
	GM_OPS_SRC = 1 << 1,
	GM_OPS_MASK = 1 << 2,
	GM_OPS_PROGRAM = 1 << 3,
	GM_OPS_ALPHA = 1 << 4,
	GM_OPS_PATTERN = 1 << 5,
	GM_OPS_TO = 1 << 6,        /* dtype of dst; of a collective, reduce */
	GM_OPS_ONE = 1 << 7,       /* a reduction: dst is one element */
	GM_OPS_READS_DST = 1 << 8, /* dst is also an input */
	GM_OPS_IN_PLACE = 1 << 9,  /* dst may be src */
	GM_OPS_COMPUTED = 1 << 10, /* over elements, by a backend */
	GM_OPS_JOB = 1 << 11       /* a job of a caller may have it */
};

struct gm_ops_row {
	char name[16];   /* "": there is no such operation */
	uint32_t has;    /* GM_OPS_* */
	uint16_t dtypes; /* that it takes, a bit for each */
	uint16_t to;     /* into which it converts, likewise */
};

extern const struct gm_ops_row gm_ops[GM_OPS];

/* GM_OPS_*, 0 for a number that is no operation. */
static inline uint32_t gm_ops_has(uint32_t op)
{
	return op < GM_OPS ? gm_ops[op].has : 0;
}

/* "copy" and so on, NULL for a number that is no operation. */
const char *gm_ops_name(uint32_t op);

/* Is it one rank's part of a collective? */
static inline bool gm_ops_is_collective(uint32_t op)
{
	return op >= GPUMAP_OP_BARRIER && op <= GPUMAP_OP_RECV;
}

/*
 * gm_ops_takes - does the operation exist for elements of this dtype
 *
 * to		of no account for an operation that does not convert
 *
 * Returns	0
 *		-EOPNOTSUPP	no such operation
 *		-EINVAL		no such dtype, or one it is not made for
 */
int gm_ops_takes(uint32_t op, uint32_t dtype, uint32_t to);

/* The dtype of dst: enum gpumap_dtype.  For an operation and dtypes that go
 * together. */
uint32_t gm_ops_result(uint32_t op, uint32_t dtype, uint32_t to);

/* Bytes of an element of the mask that goes with elements of @dtype. */
uint32_t gm_ops_mask_bytes(uint32_t op, uint32_t dtype);

/* Bytes of an element, 0 for a number that is no dtype of a job. */
uint32_t gm_ops_dtype_bytes(uint32_t dtype);

/* "f16" and so on, NULL for a number that is no dtype of a job. */
const char *gm_ops_dtype_name(uint32_t dtype);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/ops.h"

#include <errno.h>
#include <stddef.h>

#define N_DTYPES (GPUMAP_DTYPE_U64 + 1u)

static const struct {
	char name[6];
	uint8_t bytes;
	uint8_t sum; /* dtype of a sum of them */
} dtypes[N_DTYPES] = {
	[GPUMAP_DTYPE_U8] = { "u8", 1, GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_F16] = { "f16", 2, GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_BF16] = { "bf16", 2, GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_F32] = { "f32", 4, GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_I32] = { "i32", 4, GPUMAP_DTYPE_I64 },
	[GPUMAP_DTYPE_I64] = { "i64", 8, GPUMAP_DTYPE_I64 },
	[GPUMAP_DTYPE_F64] = { "f64", 8, GPUMAP_DTYPE_F64 },
	[GPUMAP_DTYPE_U16] = { "u16", 2, GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_U32] = { "u32", 4, GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_U64] = { "u64", 8, GPUMAP_DTYPE_U64 },
};

#define BIT(dtype) (1u << (dtype))
#define ANY        (BIT(N_DTYPES) - 1)
#define BYTES      BIT(GPUMAP_DTYPE_U8)
#define CASTS \
	(BIT(GPUMAP_DTYPE_F16) | BIT(GPUMAP_DTYPE_BF16) | BIT(GPUMAP_DTYPE_F32))
#define FLOATS (CASTS | BIT(GPUMAP_DTYPE_F64))
#define COMM   (BYTES | CASTS | BIT(GPUMAP_DTYPE_I32) | BIT(GPUMAP_DTYPE_I64))

#define JOB    (GM_OPS_JOB | GM_OPS_DST)
#define MOVES  (JOB | GM_OPS_SRC | GM_OPS_COMPUTED)
#define SCALES (MOVES | GM_OPS_ALPHA | GM_OPS_IN_PLACE)
#define MASKS  (MOVES | GM_OPS_MASK | GM_OPS_IN_PLACE)
#define PART   (GM_OPS_DST | GM_OPS_SRC | GM_OPS_PATTERN | GM_OPS_TO)

const struct gm_ops_row gm_ops[GM_OPS] = {
	[GPUMAP_OP_NOP] = { "nop", GM_OPS_JOB, ANY, 0 },
	[GPUMAP_OP_FILL] = { "fill", JOB | GM_OPS_PATTERN | GM_OPS_COMPUTED,
			     ANY, 0 },
	[GPUMAP_OP_COPY] = { "copy", MOVES, ANY, 0 },
	[GPUMAP_OP_SCALE] = { "scale", SCALES, FLOATS, 0 },
	[GPUMAP_OP_AXPY] = { "axpy", SCALES | GM_OPS_READS_DST, FLOATS, 0 },
	[GPUMAP_OP_ALLOC] = { "alloc", GM_OPS_DST | GM_OPS_PATTERN, BYTES, 0 },
	[GPUMAP_OP_FREE] = { "free", GM_OPS_DST, BYTES, 0 },
	[GPUMAP_OP_CAST] = { "cast", MOVES | GM_OPS_TO, CASTS, CASTS },
	[GPUMAP_OP_SUM] = { "sum", MOVES | GM_OPS_ONE, ANY, 0 },
	[GPUMAP_OP_MIN] = { "min", MOVES | GM_OPS_ONE, ANY, 0 },
	[GPUMAP_OP_MAX] = { "max", MOVES | GM_OPS_ONE, ANY, 0 },
	[GPUMAP_OP_MASK_ADD] = { "mask_add", MASKS, FLOATS, 0 },
	[GPUMAP_OP_MASK_BOOL] = { "mask_bool", MASKS, FLOATS, 0 },
	[GPUMAP_OP_LOAD] = { "load", JOB | GM_OPS_SRC, BYTES, 0 },
	[GPUMAP_OP_RUN] = { "run",
			    JOB | GM_OPS_SRC | GM_OPS_IN_PLACE | GM_OPS_PROGRAM,
			    ANY, 0 },
	[GPUMAP_OP_BARRIER] = { "barrier", PART, ANY, 0 },
	[GPUMAP_OP_ALL_REDUCE] = { "all_reduce", PART, COMM, 0 },
	[GPUMAP_OP_ALL_GATHER] = { "all_gather", PART, COMM, 0 },
	[GPUMAP_OP_REDUCE_SCATTER] = { "reduce_scatter", PART, COMM, 0 },
	[GPUMAP_OP_BROADCAST] = { "broadcast", PART, COMM, 0 },
	[GPUMAP_OP_SEND] = { "send", PART, COMM, 0 },
	[GPUMAP_OP_RECV] = { "recv", PART, COMM, 0 },
};

const char *gm_ops_name(uint32_t op)
{
	return op < GM_OPS && gm_ops[op].name[0] != '\0' ? gm_ops[op].name
							 : NULL;
}

int gm_ops_takes(uint32_t op, uint32_t dtype, uint32_t to)
{
	if (gm_ops_name(op) == NULL)
		return -EOPNOTSUPP;
	if (dtype >= N_DTYPES || (gm_ops[op].dtypes & BIT(dtype)) == 0)
		return -EINVAL;
	if (gm_ops[op].to == 0)
		return 0;
	if (to >= N_DTYPES || (gm_ops[op].to & BIT(to)) == 0 || to == dtype)
		return -EINVAL;
	return 0;
}

uint32_t gm_ops_result(uint32_t op, uint32_t dtype, uint32_t to)
{
	if (op == GPUMAP_OP_SUM && dtype < N_DTYPES)
		return dtypes[dtype].sum;
	return (gm_ops_has(op) & GM_OPS_TO) != 0 ? to : dtype;
}

uint32_t gm_ops_mask_bytes(uint32_t op, uint32_t dtype)
{
	return op == GPUMAP_OP_MASK_BOOL ? 1 : gm_ops_dtype_bytes(dtype);
}

uint32_t gm_ops_dtype_bytes(uint32_t dtype)
{
	return dtype < N_DTYPES ? dtypes[dtype].bytes : 0;
}

const char *gm_ops_dtype_name(uint32_t dtype)
{
	return dtype < N_DTYPES ? dtypes[dtype].name : NULL;
}

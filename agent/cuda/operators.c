/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/cuda/operators.h"

#include <errno.h>
#include <stdio.h>

#include "gpumap.h"

/* Made from operators.ptx when building: a literal for each line. */
const char gm_operators_ptx[] =
#include "agent/cuda/operators_ptx.h"
	;
const size_t gm_operators_ptx_bytes = sizeof(gm_operators_ptx);

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(dtype)  (UINT32_C(1) << (dtype))

#define THREADS     256u
#define WARP        32u
#define LINE_BYTES  16u /* what a thread of FILL writes at once */
/* Resident on a multiprocessor of any card: 2048 threads, 1024 on some. */
#define BLOCKS_PER_UNIT 8u

enum {
	HALVES = BIT(GPUMAP_DTYPE_F16) | BIT(GPUMAP_DTYPE_BF16),
	CASTS = HALVES | BIT(GPUMAP_DTYPE_F32),
	FLOATS = CASTS | BIT(GPUMAP_DTYPE_F64),
	NUMBERS = FLOATS | BIT(GPUMAP_DTYPE_U8) | BIT(GPUMAP_DTYPE_U16) |
		  BIT(GPUMAP_DTYPE_U32) | BIT(GPUMAP_DTYPE_U64) |
		  BIT(GPUMAP_DTYPE_I32) | BIT(GPUMAP_DTYPE_I64),
};

static const struct {
	const char *name;
	uint32_t takes; /* a bit per dtype */
} ops[GM_OPERATORS] = {
	[GM_OPERATOR_FILL] = { "fill", NUMBERS },
	[GM_OPERATOR_SCALE] = { "scale", FLOATS },
	[GM_OPERATOR_AXPY] = { "axpy", FLOATS },
	[GM_OPERATOR_CAST] = { "cast", CASTS },
	[GM_OPERATOR_MASK_ADD] = { "mask_add", FLOATS },
	[GM_OPERATOR_MASK_BOOL] = { "mask_bool", FLOATS },
	[GM_OPERATOR_SUM] = { "sum", NUMBERS },
	[GM_OPERATOR_MIN] = { "min", NUMBERS },
	[GM_OPERATOR_MAX] = { "max", NUMBERS },
};

static const struct {
	const char *name;
	uint32_t sum; /* dtype of a sum */
} dtypes[] = {
	[GPUMAP_DTYPE_U8] = { "u8", GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_F16] = { "f16", GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_BF16] = { "bf16", GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_F32] = { "f32", GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_I32] = { "i32", GPUMAP_DTYPE_I64 },
	[GPUMAP_DTYPE_I64] = { "i64", GPUMAP_DTYPE_I64 },
	[GPUMAP_DTYPE_F64] = { "f64", GPUMAP_DTYPE_F64 },
	[GPUMAP_DTYPE_U16] = { "u16", GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_U32] = { "u32", GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_U64] = { "u64", GPUMAP_DTYPE_U64 },
};

static int takes(uint32_t op, uint32_t dtype)
{
	return dtype < N_OF(dtypes) && (ops[op].takes & BIT(dtype));
}

int gm_operators_name(uint32_t op, uint32_t dtype, uint32_t to, char *ret_name)
{
	if (op >= GM_OPERATORS)
		return -EOPNOTSUPP;
	if (!takes(op, dtype))
		return -EINVAL;
	if (op == GM_OPERATOR_FILL) {
		snprintf(ret_name, GM_OPERATOR_NAME_BYTES, "gm_fill");
		return 0;
	}
	if (op != GM_OPERATOR_CAST) {
		snprintf(ret_name, GM_OPERATOR_NAME_BYTES, "gm_%s_%s",
			 ops[op].name, dtypes[dtype].name);
		return 0;
	}
	if (!takes(op, to) || to == dtype)
		return -EINVAL;
	snprintf(ret_name, GM_OPERATOR_NAME_BYTES, "gm_cast_%s_%s",
		 dtypes[dtype].name, dtypes[to].name);
	return 0;
}

uint32_t gm_operators_result(uint32_t op, uint32_t dtype)
{
	return op == GM_OPERATOR_SUM ? dtypes[dtype].sum : dtype;
}

uint64_t gm_operators_chunks(uint64_t n)
{
	return n / GM_OPERATOR_CHUNK + (n % GM_OPERATOR_CHUNK != 0);
}

struct gm_worker_exec gm_operators_launch(uint32_t op, uint64_t n,
					  uint32_t units)
{
	uint64_t threads = n, blocks, most = (uint64_t)units * BLOCKS_PER_UNIT;

	if (op == GM_OPERATOR_FILL)
		threads = n / LINE_BYTES + 1;
	else if (op >= GM_OPERATOR_SUM)
		threads = gm_operators_chunks(n) * WARP;
	blocks = threads / THREADS + (threads % THREADS != 0);
	if (blocks > most)
		blocks = most;
	return (struct gm_worker_exec){
		.blocks = blocks ? (uint32_t)blocks : 1,
		.threads = THREADS,
	};
}

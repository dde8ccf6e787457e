/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/task.h"

#include <errno.h>
#include <stddef.h>

#include "gpumap.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	const char *name;
	uint32_t bytes;
} dtypes[] = {
	[GPUMAP_DTYPE_U8] = { "u8", 1 },     [GPUMAP_DTYPE_F16] = { "f16", 2 },
	[GPUMAP_DTYPE_BF16] = { "bf16", 2 }, [GPUMAP_DTYPE_F32] = { "f32", 4 },
	[GPUMAP_DTYPE_I32] = { "i32", 4 },   [GPUMAP_DTYPE_I64] = { "i64", 8 },
	[GPUMAP_DTYPE_F64] = { "f64", 8 },   [GPUMAP_DTYPE_U16] = { "u16", 2 },
	[GPUMAP_DTYPE_U32] = { "u32", 4 },   [GPUMAP_DTYPE_U64] = { "u64", 8 },
};

#define ANY_DTYPE   UINT32_MAX
#define ONLY(dtype) (UINT32_C(1) << (dtype))

static const struct {
	const char *name;
	uint32_t memory; /* GM_TASK_* */
	uint32_t takes;  /* a bit per dtype */
} ops[] = {
	[GPUMAP_OP_NOP] = { "nop", 0, ANY_DTYPE },
	[GPUMAP_OP_FILL] = { "fill", GM_TASK_WRITES_DST, ANY_DTYPE },
	[GPUMAP_OP_COPY] = { "copy", GM_TASK_READS_SRC | GM_TASK_WRITES_DST,
			     ANY_DTYPE },
	[GPUMAP_OP_SCALE] = { "scale", GM_TASK_READS_SRC | GM_TASK_WRITES_DST,
			      ONLY(GPUMAP_DTYPE_F32) },
	[GPUMAP_OP_AXPY] = { "axpy",
			     GM_TASK_READS_SRC | GM_TASK_READS_DST |
				     GM_TASK_WRITES_DST,
			     ONLY(GPUMAP_DTYPE_F32) },
	[GPUMAP_OP_ALLOC] = { "alloc", 0, ONLY(GPUMAP_DTYPE_U8) },
	[GPUMAP_OP_FREE] = { "free", 0, ONLY(GPUMAP_DTYPE_U8) },
};

uint32_t gm_dtype_bytes(uint32_t dtype)
{
	return dtype < N_OF(dtypes) ? dtypes[dtype].bytes : 0;
}

const char *gm_dtype_name(uint32_t dtype)
{
	return dtype < N_OF(dtypes) ? dtypes[dtype].name : NULL;
}

const char *gm_op_name(uint32_t op)
{
	return op < N_OF(ops) ? ops[op].name : NULL;
}

uint32_t gm_op_memory(uint32_t op)
{
	return op < N_OF(ops) ? ops[op].memory : 0;
}

int gm_op_takes(uint32_t op, uint32_t dtype)
{
	if (!gm_op_name(op))
		return -EOPNOTSUPP;
	if (!gm_dtype_bytes(dtype) || !(ops[op].takes & ONLY(dtype)))
		return -EINVAL;
	return 0;
}

int gm_task_bytes(uint32_t dtype, uint64_t n, uint64_t *ret_bytes)
{
	uint32_t each = gm_dtype_bytes(dtype);

	if (!each)
		return -EINVAL;
	if (n > INT64_MAX / each)
		return -EOVERFLOW;
	*ret_bytes = n * each;
	return 0;
}

static bool overlap(uint64_t a, uint64_t b, uint64_t bytes, bool may_be_same)
{
	if (a == b && may_be_same)
		return false;
	return a < b ? b - a < bytes : a - b < bytes;
}

bool gm_task_overlaps(const struct gm_task *task)
{
	bool may_be_same = task->op != GPUMAP_OP_COPY;
	uint64_t bytes;

	if (!(gm_op_memory(task->op) & GM_TASK_READS_SRC))
		return false;
	if (gm_task_bytes(task->dtype, task->n, &bytes) < 0)
		return false;
	if (task->dst && task->src)
		return overlap((uintptr_t)task->dst, (uintptr_t)task->src,
			       bytes, may_be_same);
	/* Memory of the device is apart from all that is mapped here. */
	if (!task->dst && !task->src)
		return overlap(task->dst_address, task->src_address, bytes,
			       may_be_same);
	return false;
}

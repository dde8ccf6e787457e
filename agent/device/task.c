/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/task.h"

#include <errno.h>
#include <stddef.h>

#include "gpumap.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	uint32_t bytes;
	uint32_t sum; /* dtype of a sum of them */
} dtypes[] = {
	[GPUMAP_DTYPE_U8] = { 1, GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_F16] = { 2, GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_BF16] = { 2, GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_F32] = { 4, GPUMAP_DTYPE_F32 },
	[GPUMAP_DTYPE_I32] = { 4, GPUMAP_DTYPE_I64 },
	[GPUMAP_DTYPE_I64] = { 8, GPUMAP_DTYPE_I64 },
	[GPUMAP_DTYPE_F64] = { 8, GPUMAP_DTYPE_F64 },
	[GPUMAP_DTYPE_U16] = { 2, GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_U32] = { 4, GPUMAP_DTYPE_U64 },
	[GPUMAP_DTYPE_U64] = { 8, GPUMAP_DTYPE_U64 },
};

#define ANY_DTYPE   UINT32_MAX
#define ONLY(dtype) (UINT32_C(1) << (dtype))
#define CASTS                                               \
	(ONLY(GPUMAP_DTYPE_F16) | ONLY(GPUMAP_DTYPE_BF16) | \
	 ONLY(GPUMAP_DTYPE_F32))
#define FLOATS (CASTS | ONLY(GPUMAP_DTYPE_F64))
#define BOTH   (GM_TASK_READS_SRC | GM_TASK_WRITES_DST)

static const struct {
	const char *name;
	uint32_t memory; /* GM_TASK_* */
	uint32_t takes;  /* a bit per dtype */
	uint32_t to;     /* likewise, with GM_TASK_CASTS */
} ops[] = {
	[GPUMAP_OP_NOP] = { "nop", 0, ANY_DTYPE, 0 },
	[GPUMAP_OP_FILL] = { "fill", GM_TASK_WRITES_DST, ANY_DTYPE, 0 },
	[GPUMAP_OP_COPY] = { "copy", BOTH, ANY_DTYPE, 0 },
	[GPUMAP_OP_SCALE] = { "scale", BOTH | GM_TASK_IN_PLACE, FLOATS, 0 },
	[GPUMAP_OP_AXPY] = { "axpy",
			     BOTH | GM_TASK_READS_DST | GM_TASK_IN_PLACE,
			     FLOATS, 0 },
	[GPUMAP_OP_ALLOC] = { "alloc", 0, ONLY(GPUMAP_DTYPE_U8), 0 },
	[GPUMAP_OP_FREE] = { "free", 0, ONLY(GPUMAP_DTYPE_U8), 0 },
	[GPUMAP_OP_CAST] = { "cast", BOTH | GM_TASK_CASTS, CASTS, CASTS },
	[GPUMAP_OP_SUM] = { "sum", BOTH | GM_TASK_REDUCES, ANY_DTYPE, 0 },
	[GPUMAP_OP_MIN] = { "min", BOTH | GM_TASK_REDUCES, ANY_DTYPE, 0 },
	[GPUMAP_OP_MAX] = { "max", BOTH | GM_TASK_REDUCES, ANY_DTYPE, 0 },
	[GPUMAP_OP_MASK_ADD] = { "mask_add",
				 BOTH | GM_TASK_READS_MASK | GM_TASK_IN_PLACE,
				 FLOATS, 0 },
	[GPUMAP_OP_MASK_BOOL] = { "mask_bool",
				  BOTH | GM_TASK_READS_MASK | GM_TASK_IN_PLACE,
				  FLOATS, 0 },
	[GPUMAP_OP_RUN] = { "run", 0, ANY_DTYPE, 0 },
	[GPUMAP_OP_LOAD] = { "load", 0, ONLY(GPUMAP_DTYPE_U8), 0 },
	/* agent/comm checks their operands. */
	[GPUMAP_OP_BARRIER] = { "barrier", 0, ANY_DTYPE, 0 },
	[GPUMAP_OP_ALL_REDUCE] = { "all_reduce", 0, ANY_DTYPE, 0 },
	[GPUMAP_OP_ALL_GATHER] = { "all_gather", 0, ANY_DTYPE, 0 },
	[GPUMAP_OP_REDUCE_SCATTER] = { "reduce_scatter", 0, ANY_DTYPE, 0 },
	[GPUMAP_OP_BROADCAST] = { "broadcast", 0, ANY_DTYPE, 0 },
	[GPUMAP_OP_SEND] = { "send", 0, ANY_DTYPE, 0 },
	[GPUMAP_OP_RECV] = { "recv", 0, ANY_DTYPE, 0 },
};

uint32_t gm_task_dtype_bytes(uint32_t dtype)
{
	return dtype < N_OF(dtypes) ? dtypes[dtype].bytes : 0;
}

const char *gm_op_name(uint32_t op)
{
	return op < N_OF(ops) ? ops[op].name : NULL;
}

uint32_t gm_op_memory(uint32_t op)
{
	return op < N_OF(ops) ? ops[op].memory : 0;
}

int gm_op_takes(uint32_t op, uint32_t dtype, uint32_t to)
{
	if (!gm_op_name(op))
		return -EOPNOTSUPP;
	if (!gm_task_dtype_bytes(dtype) || !(ops[op].takes & ONLY(dtype)))
		return -EINVAL;
	if (!(ops[op].memory & GM_TASK_CASTS))
		return 0;
	if (!gm_task_dtype_bytes(to) || !(ops[op].to & ONLY(to)) || to == dtype)
		return -EINVAL;
	return 0;
}

uint32_t gm_op_result(uint32_t op, uint32_t dtype, uint32_t to)
{
	if (op == GPUMAP_OP_SUM && dtype < N_OF(dtypes))
		return dtypes[dtype].sum;
	return gm_op_memory(op) & GM_TASK_CASTS ? to : dtype;
}

static int sizes_of_items(const struct gm_task *task,
			  struct gm_task_sizes *ret_sizes)
{
	struct gm_task_sizes s = { .dst_each = (uint32_t)(task->pattern >> 32),
				   .src_each = (uint32_t)task->pattern };

	s.each = s.dst_each > s.src_each ? s.dst_each : s.src_each;
	if (!s.each)
		s.each = 1;
	if (task->n > INT64_MAX / s.each)
		return -EOVERFLOW;
	s.dst = task->n * s.dst_each;
	s.src = task->n * s.src_each;
	*ret_sizes = s;
	return 0;
}

int gm_task_sizes(const struct gm_task *task, struct gm_task_sizes *ret_sizes)
{
	uint32_t memory = gm_op_memory(task->op);
	struct gm_task_sizes s = { 0 };

	if (task->op == GPUMAP_OP_RUN)
		return sizes_of_items(task, ret_sizes);
	if (memory & GM_TASK_WRITES_DST)
		s.dst_each = gm_task_dtype_bytes(
			gm_op_result(task->op, task->dtype, task->to));
	if (memory & GM_TASK_READS_SRC)
		s.src_each = gm_task_dtype_bytes(task->dtype);
	if (memory & GM_TASK_READS_MASK)
		s.mask_each = task->op == GPUMAP_OP_MASK_BOOL ? 1 : s.src_each;
	s.each = s.dst_each > s.src_each && !(memory & GM_TASK_REDUCES)
			 ? s.dst_each
			 : s.src_each;
	if (!s.dst_each || ((memory & GM_TASK_READS_SRC) && !s.src_each))
		return -EINVAL;
	if (task->n > INT64_MAX / s.each)
		return -EOVERFLOW;
	s.dst = (memory & GM_TASK_REDUCES ? 1 : task->n) * s.dst_each;
	s.src = task->n * s.src_each;
	s.mask = (uint64_t)task->mask_n * s.mask_each;
	*ret_sizes = s;
	return 0;
}

static bool overlap(uint64_t dst, uint64_t dst_bytes, uint64_t src,
		    uint64_t src_bytes, bool may_be_same)
{
	if (dst == src && may_be_same)
		return false;
	return dst < src ? dst_bytes > src - dst : src_bytes > dst - src;
}

/* Memory of the device is apart from all that is mapped here. */
static bool overlap_where(const struct gm_task *task, uint64_t dst_bytes,
			  const void *with, uint64_t with_address,
			  uint64_t bytes, bool may_be_same)
{
	if (task->dst && with)
		return overlap((uintptr_t)task->dst, dst_bytes, (uintptr_t)with,
			       bytes, may_be_same);
	return !task->dst && !with &&
	       overlap(task->dst_address, dst_bytes, with_address, bytes,
		       may_be_same);
}

bool gm_task_overlaps(const struct gm_task *task)
{
	uint32_t memory = gm_op_memory(task->op);
	bool runs = task->op == GPUMAP_OP_RUN;
	struct gm_task_sizes s;

	if ((!(memory & GM_TASK_READS_SRC) && !runs) ||
	    gm_task_sizes(task, &s) < 0)
		return false;
	if (overlap_where(task, s.dst, task->src, task->src_address, s.src,
			  runs || (memory & GM_TASK_IN_PLACE)))
		return true;
	return s.mask && overlap_where(task, s.dst, task->mask,
				       task->mask_address, s.mask, false);
}

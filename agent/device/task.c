/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/task.h"

#include <errno.h>
#include <stddef.h>

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
	uint32_t has = gm_ops_has(task->op);
	struct gm_task_sizes s = { 0 };

	if (task->op == GPUMAP_OP_RUN)
		return sizes_of_items(task, ret_sizes);
	if (has & GM_OPS_COMPUTED)
		s.dst_each = gm_ops_dtype_bytes(
			gm_ops_result(task->op, task->dtype, task->to));
	if (has & GM_OPS_SRC)
		s.src_each = gm_ops_dtype_bytes(task->dtype);
	if (has & GM_OPS_MASK)
		s.mask_each = gm_ops_mask_bytes(task->op, task->dtype);
	s.each = s.dst_each > s.src_each && !(has & GM_OPS_ONE) ? s.dst_each
								: s.src_each;
	if (!s.dst_each || ((has & GM_OPS_SRC) && !s.src_each))
		return -EINVAL;
	if (task->n > INT64_MAX / s.each)
		return -EOVERFLOW;
	s.dst = (has & GM_OPS_ONE ? 1 : task->n) * s.dst_each;
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
	uint32_t has = gm_ops_has(task->op);
	struct gm_task_sizes s;

	if (!(has & GM_OPS_SRC) || gm_task_sizes(task, &s) < 0)
		return false;
	if (overlap_where(task, s.dst, task->src, task->src_address, s.src,
			  has & GM_OPS_IN_PLACE))
		return true;
	return s.mask && overlap_where(task, s.dst, task->mask,
				       task->mask_address, s.mask, false);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Cards that are drained while others of their groups are not through: what has
 * ended on one of them ends well on all, by the stand-in for NCCL.
 */

#include "collective_nccl.h"

/* Row 1 gives and is soon through; row 0 gets it late. */
static const struct shape from_row_1 = { .op = GPUMAP_OP_BROADCAST,
					 .dtype = GPUMAP_DTYPE_I32,
					 .n = 1000,
					 .root = 1 };

static void slow_down(uint32_t row, uint32_t ms)
{
	struct gpumap_device device = story_device(map, row);

	cuda_scene_add(&stage_scene, "row %u: copies take %u ms",
		       cuda_scene_gpu(&stage_scene, &device), ms);
}

/* Behind the collective in row 1's queue. */
static void row_1_is_through(struct ranks *g)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = 64,
				  .src = g->memory[1],
				  .dst_buffer = g->buffer[1],
				  .cookie = 2 };

	EQ(gpumap_submit(session, g->row[1], &job, 1), 0);
	EQ(collective_end(session, 2), 0);
}

static bool leave_in_the_tail(uint32_t ms, int *ret_status)
{
	struct gpumap *other = story_attach(&agent);
	struct ranks g;

	if (!OK(other != NULL) || !nccl_open(session, "cards", MIB, &g))
		return false;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	EQ(cards_once(&g, &from_row_1, 1), 0);
	slow_down(0, ms);
	EQ(cards_submit(&g, &from_row_1, 1), 0);
	row_1_is_through(&g);
	EQ(gpumap_device_drain(other, 1), 0);
	*ret_status = collective_end(session, 1);
	cuda_scene_mend(&stage_scene);
	gpumap_detach(other);
	nccl_close(&g);
	return true;
}

static void who_leaves_waits_for_the_others(void)
{
	int status;

	if (!nccl_begin("", "nccl = yes\n"))
		return;
	if (leave_in_the_tail(1500, &status))
		EQ(status, 0);
	nccl_end();
}

/* But not for ever. */
static void for_as_long_as_they_may_meet(void)
{
	int status;

	if (!nccl_begin("", "nccl = yes\nnccl-limit = 2s\n"))
		return;
	if (leave_in_the_tail(20000, &status))
		EQ(status, -EIO);
	OK(!agent_logged(&agent, "it did not end when asked"));
	nccl_end();
}

int main(void)
{
	who_leaves_waits_for_the_others();
	for_as_long_as_they_may_meet();
	stage_end(&agent);
	return tap_done();
}

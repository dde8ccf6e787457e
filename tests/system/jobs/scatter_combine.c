/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks reductions over tiles: the result of each tile, and all of them
 * combined.
 */

#include "tests/support/scatter_rig.h"

static struct agent agent;
static struct gpumap *map;

/* A tile's result is an element of dst, or of its row's buffer. */
static void tiles_have_results_of_their_own(void)
{
	struct gpumap_scatter_opts opts = spread();
	struct gpumap_session *s = NULL;
	struct gpumap_tile tiles[ROWS];
	struct gpumap_job job = copy_all();
	uint64_t first = FLOATS / 8 * 3, buffers[ROWS];
	struct file from;
	float *sums;
	void *memory = NULL;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	from = file_make(s);
	EQ(gpumap_alloc(s, 0, 64, &memory), 0);
	sums = memory;
	for (uint64_t i = 0; i < FLOATS; i++)
		from.at[i] = i < first ? 1 : 3;
	sums[2] = 77;
	job.op = GPUMAP_OP_SUM;
	job.src_buffer = from.buffer;
	job.dst = sums;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	OK(sums[0] == (float)first && sums[2] == 77);
	OK(sums[1] == 3 * (float)(FLOATS - first));
	from.at[first - 1] = -5;
	from.at[FLOATS - 1] = -7;
	job.op = GPUMAP_OP_MIN;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	OK(sums[0] == -5 && sums[1] == -7);
	buffers[0] = alloc_on(s, 1);
	buffers[1] = alloc_on(s, 0);
	job.dst_at = 64;
	opts.dst_buffers = buffers;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .dst = sums,
				   .src_buffer = buffers[1],
				   .src_at = 64,
				   .n = 1 };
	opts = (struct gpumap_scatter_opts){ .size = sizeof(opts) };
	opts.rows = (const uint32_t[]){ 0 };
	opts.n_rows = 1;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), 1);
	OK(sums[0] == -7);
	file_end(s, &from);
	gpumap_session_close(s);
}

/* The results are combined in the order of the tiles, whatever order they end
 * in. */
static void results_are_brought_together(void)
{
	struct gpumap_scatter_opts opts = spread();
	struct gpumap_session *s = NULL;
	struct gpumap_tile tiles[ROWS];
	struct gpumap_job job = copy_all();
	uint64_t first = FLOATS / 8 * 3, buffers[ROWS] = { 0 };
	struct file from;
	float *sums, all = -1;
	void *memory = NULL;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	from = file_make(s);
	EQ(gpumap_alloc(s, 0, 64, &memory), 0);
	sums = memory;
	for (uint64_t i = 0; i < FLOATS; i++)
		from.at[i] = i < first ? 0.1f : 3;
	job.op = GPUMAP_OP_SUM;
	job.src_buffer = from.buffer;
	job.dst = sums;
	opts.ret_combined = &all;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	OK(all == sums[0] + sums[1]);
	job.op = GPUMAP_OP_MAX;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	OK(all == 3);
	from.at[FLOATS - 1] = -7;
	job.op = GPUMAP_OP_MIN;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	OK(all == -7);
	/* A scatter that fails leaves the combined result alone. */
	job.deadline_ns = 1;
	all = 5;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -ETIME);
	OK(all == 5);
	job.deadline_ns = 0;
	/* Results in rows' buffers or in other memory are not combined, nor
	 * those of a job that is no reduction. */
	opts.dst_buffers = buffers;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -EINVAL);
	opts.dst_buffers = NULL;
	job.dst_buffer = from.buffer;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -EINVAL);
	job.dst_buffer = 0;
	job.op = GPUMAP_OP_SCALE;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -EINVAL);
	OK(all == 5);
	file_end(s, &from);
	gpumap_session_close(s);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	tiles_have_results_of_their_own();
	results_are_brought_together();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	stage_end(&agent);
	return tap_done();
}

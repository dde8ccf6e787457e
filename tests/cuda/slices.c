/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * [jobs] slice: copies to a card or back go by so many bytes, whichever client
 * asks for how much, and copies within it go by as many as take the same time.
 *
 * The stand-in counts the copies where they arrive.
 */

#include "tests/support/cuda_agent.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

static struct agent agent;
static struct cuda_scene scene;

struct bench {
	struct gpumap *map;
	struct gpumap_session *session;
	char *arena;
	uint64_t a, b; /* buffers of the card's own */
};

/* One copy of @n bytes: how many the card has had of it, or what was wrong. */
static int64_t copies_of(const struct bench *bench, struct gpumap_job job,
			 uint64_t n)
{
	struct gpumap_device device = story_device(bench->map, 0);
	uint32_t gpu = cuda_scene_gpu(&scene, &device);
	uint64_t before = cuda_scene_copies(&scene, gpu);
	struct gpumap_done done = { .status = -1 };
	int ret;

	job.op = GPUMAP_OP_COPY;
	job.n = n;
	ret = gpumap_submit(bench->session, 0, &job, 1);
	if (ret == 0)
		ret = gpumap_wait(bench->session, &done, 1, GPUMAP_NO_DEADLINE);
	if (ret != 1 || done.status != 0)
		return ret < 0 ? ret : done.status;
	return (int64_t)(cuda_scene_copies(&scene, gpu) - before);
}

static bool begin(struct bench *bench, const char *jobs)
{
	char more[128];
	void *arena;

	snprintf(more, sizeof(more), "[host]\nenabled = no\n%s", jobs);
	cuda_scene_agent(&scene, &agent, "", more);
	if (!OK(agent_start(&agent)))
		return false;
	bench->map = story_attach(&agent);
	if (!OK(bench->map) ||
	    !EQ(gpumap_session_open(bench->map, NULL, &bench->session), 0) ||
	    !EQ(gpumap_alloc(bench->session, 0, 8 * MIB, &arena), 0))
		return false;
	bench->arena = arena;
	EQ(gpumap_buffer_alloc(bench->session, 0, 64 * MIB, 0,
			       GPUMAP_NO_DEADLINE, &bench->a),
	   0);
	EQ(gpumap_buffer_alloc(bench->session, 0, 64 * MIB, 0,
			       GPUMAP_NO_DEADLINE, &bench->b),
	   0);
	return true;
}

static void end(struct bench *bench)
{
	gpumap_session_close(bench->session);
	story_finish(&agent, bench->map);
}

static void bytes_are_right(const struct bench *bench, uint64_t slice)
{
	uint64_t n = 4 * MIB - 3, wrong = 0;
	char *at = bench->arena;

	for (uint64_t i = 0; i < n; i++)
		at[i] = (char)(i * 2654435761u >> 9);
	EQ(copies_of(bench,
		     (struct gpumap_job){ .src = at, .dst_buffer = bench->a },
		     n),
	   (int64_t)((n + slice - 1) / slice));
	EQ(copies_of(bench,
		     (struct gpumap_job){ .dst = at + 4 * MIB,
					  .src_buffer = bench->a },
		     n),
	   (int64_t)((n + slice - 1) / slice));
	for (uint64_t i = 0; i < n; i++)
		wrong += at[i] != at[4 * MIB + i];
	EQ(wrong, 0);
}

/* Whole slices are whole, and one byte more is one slice more. */
static void jobs_are_cut(const char *jobs, uint64_t slice)
{
	struct bench bench = { 0 };
	struct gpumap_job in;

	if (!begin(&bench, jobs))
		return;
	in = (struct gpumap_job){ .src = bench.arena, .dst_buffer = bench.a };
	EQ(copies_of(&bench, in, slice), 1);
	EQ(copies_of(&bench, in, slice + 1), 2);
	EQ(copies_of(&bench, in, 4 * slice), 4);
	bytes_are_right(&bench, slice);
	/* Within the card, whose memory is 24 times as fast as the bus. */
	in = (struct gpumap_job){ .src_buffer = bench.a,
				  .dst_buffer = bench.b };
	EQ(copies_of(&bench, in, 24 * slice), 1);
	EQ(copies_of(&bench, in, 24 * slice + 1), 2);
	end(&bench);
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return tap_done();
	jobs_are_cut("", MIB);
	jobs_are_cut("[jobs]\nslice = 256K\n", 256 * KIB);
	jobs_are_cut("[jobs]\nslice = 2M\n", 2 * MIB);
	/* Whole 64 KiB count. */
	jobs_are_cut("[jobs]\nslice = 200000\n", 192 * KIB);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}

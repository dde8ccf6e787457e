/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Figures of rows: how many jobs a row has done, how many failed, and in which
 * time, over deaths of workers and of the agent.
 */

#include "tests/support/story_rows.h"

#define N      (UINT32_C(1) << 20)
#define NOPS   4000
#define FILLS  20
#define FAILED 3

static struct agent agent;
static struct gpumap *map;

static struct gpumap_device_jobs jobs_of(uint32_t row)
{
	struct gpumap_device_jobs jobs = { .size = sizeof(jobs) };

	EQ(gpumap_device_jobs_read(map, row, &jobs), 0);
	return jobs;
}

/* The figures follow with the next refresh. */
static struct gpumap_device_jobs wait_ended(uint32_t row, uint64_t least)
{
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	struct gpumap_device_jobs jobs;

	do {
		jobs = jobs_of(row);
		story_nap(1000);
	} while (jobs.ended < least && story_now() < limit);
	EQ(jobs.ended, least);
	return jobs;
}

static uint64_t timed(const struct gpumap_device_jobs *jobs)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < GPUMAP_JOB_TIMES; i++)
		sum += jobs->times[i];
	return sum;
}

static void run_some(struct gpumap_session *s, uint32_t row, void *memory)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_job fill = { .op = GPUMAP_OP_FILL,
				   .dtype = GPUMAP_DTYPE_U8,
				   .dst = memory,
				   .n = N };
	/* All of it does not fit behind that place. */
	struct gpumap_job wrong = fill;
	uint32_t bad = 0;

	for (int i = 0; i < NOPS; i++)
		bad += story_run(s, row, &nop) != 0;
	for (int i = 0; i < FILLS; i++)
		bad += story_run(s, row, &fill) != 0;
	EQ(bad, 0);
	wrong.n = UINT64_C(1) << 50;
	for (int i = 0; i < FAILED; i++)
		EQ(story_run(s, row, &wrong), -ERANGE);
}

static void jobs_are_counted_and_timed(void)
{
	struct gpumap_session *s = NULL;
	struct gpumap_device_jobs jobs;
	void *memory = NULL;

	EQ(jobs_of(0).ended, 0);
	EQ(jobs_of(1).ended, 0);
	EQ(gpumap_session_open(map, NULL, &s), 0);
	EQ(gpumap_alloc(s, 0, N, &memory), 0);
	run_some(s, 0, memory);
	jobs = wait_ended(0, NOPS + FILLS + FAILED);
	EQ(jobs.failed, FAILED);
	EQ(jobs.row, 0);
	EQ(jobs.generation, story_device(map, 0).generation);
	/* About as many as there were, and some time. */
	OK(timed(&jobs) > NOPS / 2 && timed(&jobs) < 2 * NOPS);
	OK(jobs.ns > 0);
	EQ(jobs_of(1).ended, 0);
	gpumap_session_close(s);
}

static void figures_outlive_the_worker(void)
{
	struct gpumap_device_jobs before = jobs_of(0), after;
	uint32_t restarts = story_device(map, 0).restarts;
	struct gpumap_session *s = NULL;
	void *memory = NULL;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	EQ(gpumap_alloc(s, 0, N, &memory), 0);
	run_some(s, 0, memory);
	wait_ended(0, before.ended + NOPS + FILLS + FAILED);
	EQ(kill((pid_t)story_device(map, 0).worker_pid, SIGKILL), 0);
	OK(story_back(map, 0, restarts));
	run_some(s, 0, memory);
	after = wait_ended(0, before.ended + 2 * (NOPS + FILLS + FAILED));
	EQ(after.failed, before.failed + 2 * FAILED);
	gpumap_session_close(s);
}

static void figures_outlive_the_agent(void)
{
	struct gpumap_device_jobs before = jobs_of(0), after;
	struct gpumap_session *s = NULL;
	void *memory = NULL;

	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	OK(agent_start(&agent));
	after = jobs_of(0);
	EQ(memcmp(&after, &before, sizeof(after)), 0);
	EQ(gpumap_session_open(map, NULL, &s), 0);
	EQ(gpumap_alloc(s, 0, N, &memory), 0);
	run_some(s, 0, memory);
	wait_ended(0, before.ended + NOPS + FILLS + FAILED);
	gpumap_session_close(s);
}

/* One that is stopped refreshes them a last time. */
static void figures_of_the_end_are_kept(void)
{
	struct gpumap_device_jobs before = jobs_of(0);
	struct gpumap_session *s = NULL;
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	uint32_t bad = 0;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	for (int i = 0; i < NOPS; i++)
		bad += story_run(s, 0, &nop) != 0;
	EQ(bad, 0);
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(jobs_of(0).ended, before.ended + NOPS);
	gpumap_session_close(s);
	OK(agent_start(&agent));
}

static void bad_calls_are_refused(void)
{
	struct gpumap_device_jobs jobs = { .size = sizeof(jobs) };

	EQ(gpumap_device_jobs_read(map, gpumap_device_count(map), &jobs),
	   -ENODEV);
	jobs.size = 8;
	EQ(gpumap_device_jobs_read(map, 0, &jobs), -EINVAL);
	jobs.size = 4097;
	EQ(gpumap_device_jobs_read(map, 0, &jobs), -E2BIG);
}

TAP_CASE()
{
	stage_make(&agent, "[agent]\nrefresh = 20ms\n[host]\nrows = 2\n");
	OK(agent_start(&agent));
	map = story_attach(&agent);
	if (map == NULL)
		return tap_done();
	jobs_are_counted_and_timed();
	figures_outlive_the_worker();
	figures_outlive_the_agent();
	figures_of_the_end_are_kept();
	bad_calls_are_refused();
	return stage_finish(&agent, map);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Device code of clients that faults, that never ends, and workers of it that
 * are killed: each job ends once, the same programs are there again, and
 * neither the row's own worker nor a neighbour on the same card notices.
 */

#include "tests/support/kernel_agent.h"

#define JOBS 8u

static struct gpumap_session *session, *neighbour;
static float *memory, *beside;
static uint64_t square;

static bool begin_faults(const char *cuda, const char *programs)
{
	put_bytes("square.ptx", all, sizeof(all) - 1);
	if (!begin(cuda, programs))
		return false;
	session = open_with(true);
	neighbour = open_with(false);
	if (!OK(session != NULL && neighbour != NULL))
		return false;
	memory = some_memory(session, card);
	beside = some_memory(neighbour, card);
	return EQ(gpumap_program_load(session, card, "square", &square), 0);
}

static void submit_beside(void)
{
	struct gpumap_job jobs[JOBS];

	for (uint32_t i = 0; i < JOBS; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_SCALE,
					       .dtype = GPUMAP_DTYPE_F32,
					       .src = beside,
					       .dst = beside + ITEMS,
					       .n = ITEMS,
					       .alpha = 2 };
	EQ(gpumap_submit(neighbour, card, jobs, JOBS), 0);
}

/* How many end with @status. */
static uint32_t collect(struct gpumap_session *of, uint32_t n, int32_t status)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done[4 * JOBS];
	uint32_t ended = 0, well = 0;

	while (ended < n) {
		int got = gpumap_wait(of, done, 4 * JOBS, until);

		if (got <= 0) {
			NOTE("wait says %d after %u", got, ended);
			return 0;
		}
		for (int i = 0; i < got; i++)
			well += done[i].status == status;
		ended += (uint32_t)got;
	}
	return ended == n ? well : 0;
}

static bool is_there_again(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret = -EIO;

	while (ret == -EIO && story_now() < until) {
		struct gpumap_job job = square_job(square, memory);

		memset(memory + ITEMS, 0, 4 * ITEMS);
		ret = story_run(session, card, &job);
	}
	if (ret != 0)
		NOTE("it ends with %d", ret);
	return ret == 0 && squared(memory, 3);
}

static void finish(pid_t own)
{
	EQ((pid_t)story_device(map, card).worker_pid, own);
	EQ(story_device(map, card).restarts, 0);
	EQ(story_device(map, card).state, GPUMAP_DEVICE_READY);
	gpumap_session_close(session);
	gpumap_session_close(neighbour);
	OK(gone_soon(program_worker(card)));
	stop();
}

/* The fault, what is behind it, and what neighbours have on the same card. */
static void faults(const char *kernel, const char *reason)
{
	struct gpumap_job jobs[JOBS];
	pid_t before = program_worker(card);
	uint64_t program = 0;
	uint32_t died = (uint32_t)log_lines("event=worker_died", reason, NULL);

	if (!EQ(bring(session, card, kernel, &program), 0))
		return;
	submit_beside();
	jobs[0] = plain_job(program, memory);
	for (uint32_t i = 1; i < JOBS; i++)
		jobs[i] = square_job(square, memory);
	EQ(gpumap_submit(session, card, jobs, JOBS), 0);
	EQ(collect(session, JOBS, -EIO), JOBS);
	EQ(collect(neighbour, JOBS, 0), JOBS);
	OK(is_there_again());
	OK(program_worker(card) != before);
	OK(gone_soon(before));
	OK((uint32_t)log_lines("event=worker_died", reason, NULL) > died);
	EQ(gpumap_program_unload(session, program), 0);
	submit_beside();
	EQ(collect(neighbour, JOBS, 0), JOBS);
}

static void faults_end_nothing_else(void)
{
	pid_t own;

	if (!begin_faults("", "policy = any\n"))
		return;
	submit_beside();
	EQ(collect(neighbour, JOBS, 0), JOBS);
	own = (pid_t)story_device(map, card).worker_pid;
	faults("program_stray", "ILLEGAL_ADDRESS");
	faults("program_trap", "LAUNCH_FAILED");
	finish(own);
}

static void hangs(const char *cuda, const char *programs, const char *reason)
{
	struct gpumap_job job;
	uint64_t program = 0;
	pid_t own;

	if (!begin_faults(cuda, programs))
		return;
	submit_beside();
	EQ(collect(neighbour, JOBS, 0), JOBS);
	own = (pid_t)story_device(map, card).worker_pid;
	if (!EQ(bring(session, card, "program_spin", &program), 0))
		return;
	job = plain_job(program, memory);
	EQ(gpumap_submit(session, card, &job, 1), 0);
	EQ(collect(session, 1, -EIO), 1);
	if (!OK(agent_logged(&agent, reason)))
		agent_show_log(&agent);
	submit_beside();
	EQ(collect(neighbour, JOBS, 0), JOBS);
	OK(is_there_again());
	finish(own);
}

static void nobody_is_left_who_wants_it(void)
{
	struct gpumap_job job;
	uint64_t program = 0;
	pid_t own, worker;

	if (!begin_faults("", "policy = any\nlimit = 0\n"))
		return;
	submit_beside();
	EQ(collect(neighbour, JOBS, 0), JOBS);
	own = (pid_t)story_device(map, card).worker_pid;
	worker = program_worker(card);
	EQ(bring(session, card, "program_spin", &program), 0);
	job = plain_job(program, memory);
	EQ(gpumap_submit(session, card, &job, 1), 0);
	gpumap_session_close(session);
	OK(gone_soon(worker));
	session = open_with(true);
	memory = some_memory(session, card);
	EQ(gpumap_program_load(session, card, "square", &square), 0);
	OK(is_there_again());
	finish(own);
}

/* A program that a client loaded is there again as well. */
static void kills_end_nothing_else(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint64_t program = 0;
	pid_t own;
	int ret;

	if (!begin_faults("", "policy = any\n"))
		return;
	submit_beside();
	EQ(collect(neighbour, JOBS, 0), JOBS);
	own = (pid_t)story_device(map, card).worker_pid;
	EQ(bring(session, card, NULL, &program), 0);
	for (int round = 0; round < 3; round++) {
		submit_beside();
		kill(program_worker(card), SIGKILL);
		EQ(collect(neighbour, JOBS, 0), JOBS);
		OK(is_there_again());
		do {
			struct gpumap_job job = square_job(program, memory);

			ret = story_run(session, card, &job);
		} while (ret == -EIO && story_now() < until);
		EQ(ret, 0);
	}
	finish(own);
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return 99;
	make();
	faults_end_nothing_else();
	hangs("", "policy = any\nlimit = 2s\n",
	      "a job ran longer than the limit in [programs] allows");
	hangs("kernel-limit = 3s\n", "policy = any\nlimit = 0\n",
	      "a job ran longer than kernel-limit allows");
	nobody_is_left_who_wants_it();
	kills_end_nothing_else();
	cuda_scene_end(&scene);
	agent_remove(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A file that is forgotten while the LOAD that was to read it waits for a copy
 * on the card, which here takes its time.
 */

#define STAGE_CUDA 1

#include <stdlib.h>
#include <string.h>

#include "tests/support/story_rows.h"
#include "tests/support/load_file.h"

#define ARENA (8 * MIB)

static struct agent agent;
static struct gpumap *map;
static int held; /* the agent's descriptors before the first client */

/* ---- means ------------------------------------------------------------- */

static struct gpumap_session *session_open(struct gpumap *of)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = ARENA };
	struct gpumap_session *session = NULL;

	if (!EQ(gpumap_session_open(of, &opts, &session), 0))
		NOTE("%s", gpumap_refusal(of));
	return session;
}

static char *arena(struct gpumap_session *session, uint32_t row, uint64_t bytes)
{
	void *memory = NULL;

	if (gpumap_alloc(session, row, bytes, &memory) != 0)
		exit(99);
	return memory;
}

static uint64_t buffer(struct gpumap_session *session, uint32_t row,
		       uint64_t bytes)
{
	uint64_t name = 0;

	EQ(gpumap_buffer_alloc(session, row, bytes, 0, GPUMAP_NO_DEADLINE,
			       &name),
	   0);
	return name;
}

static void gives_back(void)
{
	OK(story_gives_back(agent.pid, held));
}

/* ---- the story --------------------------------------------------------- */

static uint32_t card(void)
{
	struct gpumap_device device = story_device(map, 0);

	return cuda_scene_gpu(&stage_scene, &device);
}

/* The next of them is on the card, and what is behind it has been read. */
static void wait_for_copy(uint64_t before)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (cuda_scene_copies(&stage_scene, card()) == before &&
	       story_now() < until)
		story_nap(1000);
}

/* The results of a LOAD and of a copy before it, where the file is unregistered
 * while the copy is under way. */
static void forget_behind(struct gpumap_session *session, int fd, char *memory,
			  uint64_t name, int ret_status[2])
{
	uint64_t file = load_register(session, fd);
	struct gpumap_job jobs[2] = {
		{ .op = GPUMAP_OP_COPY,
		  .src = memory,
		  .n = 4096,
		  .dst_buffer = name },
		load_job(file, 0, MIB, memory + MIB),
	};

	uint64_t before = cuda_scene_copies(&stage_scene, card());

	jobs[1].cookie = 1;
	EQ(gpumap_submit(session, 0, jobs, 2), 0);
	wait_for_copy(before);
	EQ(gpumap_buffer_unregister(session, file), 0);
	for (int i = 0; i < 2; i++) {
		struct gpumap_done done = { .status = 1 };

		EQ(gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS),
		   1);
		EQ(done.cookie, i);
		ret_status[i] = done.status;
	}
	EQ(gpumap_submit(session, 0, &jobs[1], 1), -ESTALE);
}

/*
 * A LOAD whose file was read has its turn when the copy before it has ended.  A
 * client that unregisters the file before that gets the answer when both have
 * ended, and the file is not read.
 */
static void a_file_is_forgotten_before_its_turn(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 2 * MIB);
	uint64_t name = buffer(session, 0, 4096), wrong = 0;
	int fd = load_file(".", MIB), status[2] = { 0 };
	uint32_t restarts;

	/* The work that the arena needs first is done. */
	EQ(load(session, 0, load_register(session, fd), 0, 1, memory), 0);
	restarts = story_device(map, 0).restarts;
	memset(memory + MIB, 0, MIB);
	cuda_scene_add(&stage_scene, "row %u: copies take 500 ms", card());
	for (int i = 0; i < 8 && status[1] == 0; i++) {
		wrong = 0;
		forget_behind(session, fd, memory, name, status);
		EQ(status[0], 0);
		for (uint64_t k = 0; k < MIB; k++)
			wrong += memory[MIB + k] != 0;
		if (status[1] == 0) /* it had begun: we were late */
			memset(memory + MIB, 0, MIB);
	}
	EQ(status[1], -ESTALE);
	EQ(wrong, 0);
	cuda_scene_mend(&stage_scene);
	EQ(story_device(map, 0).restarts, restarts);
	gpumap_session_close(session);
	story_lets_go((pid_t)story_device(map, 0).worker_pid, "agent-load.");
	close(fd);
	gives_back();
}

/* The library's connection is one of them, and so is what stands by. */
static void count_what_is_held(void)
{
	struct gpumap_session *session = session_open(map);

	arena(session, 0, 64);
	gpumap_session_close(session);
	while (gpumap_session_list(map, NULL, 0) != 0)
		story_nap(1000);
	OK(agent_wait_log(&agent, "event=standby_ready row=0"));
	held = story_holds_at_rest(agent.pid);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nenabled = no\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	count_what_is_held();
	a_file_is_forgotten_before_its_turn();
	return stage_finish(&agent, map);
}

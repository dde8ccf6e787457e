/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Memory that is on its way back: who comes behind a session that has been
 * closed, while the card is still at its last copies, gets what it had.
 */

#define STAGE_CUDA 1

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/story_rows.h"
#include "tests/support/users.h"

#define MIB      (UINT64_C(1) << 20)
#define BYTES    (64 * MIB)
#define ROOM     (96 * MIB) /* for one of them, not for two */
#define COPIES   3u
#define COPY_MS  500u
#define STRANGER 61357u /* a uid without a user */

static struct agent agent;
static struct gpumap *map;

/* ---- means ------------------------------------------------------------- */

static uint32_t card(void)
{
	struct gpumap_device device = story_device(map, 0);

	return cuda_scene_gpu(&stage_scene, &device);
}

static struct gpumap_session *session_open(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;

	if (!EQ(gpumap_session_open(map, &opts, &session), 0)) {
		NOTE("%s", gpumap_refusal(map));
		exit(99);
	}
	return session;
}

static int allocate(struct gpumap_session *session, uint64_t deadline_ns,
		    uint64_t *ret_name)
{
	return gpumap_buffer_alloc(session, 0, BYTES, 0, deadline_ns, ret_name);
}

/* Beside what the agent's own processes use, the rest is others'. */
static void leave_little(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, used;
	uint32_t gpu = card();

	OK(agent_wait_log(&agent, "event=standby_ready row=0"));
	fake_lock(&stage_scene.hw);
	used = stage_scene.hw.board->gpus[gpu].total -
	       stage_scene.hw.board->gpus[gpu].reserved -
	       fake_free_bytes(&stage_scene.hw, gpu);
	fake_unlock(&stage_scene.hw);
	cuda_scene_add(&stage_scene, "row %u: out of memory after %u MiB", gpu,
		       (unsigned)((used + ROOM) / MIB));
	while (story_device(map, 0).free_bytes > ROOM && story_now() < until)
		story_nap(1000);
	OK(story_device(map, 0).free_bytes <= ROOM);
}

/* And the agent has seen it. */
static void take_most(struct gpumap_session *session, uint64_t *ret_name)
{
	EQ(allocate(session, GPUMAP_NO_DEADLINE, ret_name), 0);
	STORY_WAIT_WHILE(story_device(map, 0).free_bytes >= BYTES);
	OK(story_device(map, 0).free_bytes < BYTES);
}

/* The session has all of the card's memory, and each of its copies takes the
 * card so long, or until it is mended. */
static struct gpumap_session *be_busy(uint32_t copy_ms)
{
	struct gpumap_session *session = session_open();
	struct gpumap_job copy = { .op = GPUMAP_OP_COPY, .n = 4096 };
	uint64_t until, before;
	void *memory = NULL;

	EQ(gpumap_alloc(session, 0, 4096, &memory), 0);
	leave_little();
	take_most(session, &copy.dst_buffer);
	copy.src = memory;
	cuda_scene_add(&stage_scene, "row %u: copies take %u ms", card(),
		       copy_ms);
	before = cuda_scene_copies(&stage_scene, card());
	for (uint32_t i = 0; i < COPIES; i++)
		EQ(gpumap_submit(session, 0, &copy, 1), 0);
	until = story_now() + STORY_LIMIT_NS;
	while (cuda_scene_copies(&stage_scene, card()) == before &&
	       story_now() < until)
		story_nap(1000);
	return session;
}

/* No session has memory any more, and the card is well. */
static void is_calm(struct gpumap_session *session)
{
	cuda_scene_mend(&stage_scene);
	gpumap_session_close(session);
	STORY_WAIT_WHILE(gpumap_session_list(map, NULL, 0) != 0);
	EQ(gpumap_session_list(map, NULL, 0), 0);
}

/* ---- stories ----------------------------------------------------------- */

/* Where there is no room for two allocations at once, the next one is served
 * after the last. */
static void the_next_gets_it(void)
{
	struct gpumap_session *last = be_busy(COPY_MS), *next = session_open();
	uint64_t name = 0;

	EQ(allocate(next, GPUMAP_NO_DEADLINE, &name), -EDQUOT);
	gpumap_session_close(next);
	gpumap_session_close(last);
	next = session_open();
	EQ(allocate(next, GPUMAP_NO_DEADLINE, &name), 0);
	is_calm(next);
}

/* No longer than it likes. */
static void a_deadline_holds(void)
{
	struct gpumap_session *last = be_busy(60 * COPY_MS), *next;
	uint64_t name = 0;

	gpumap_session_close(last);
	next = session_open();
	EQ(allocate(next, story_now() + 50 * UINT64_C(1000000), &name), -ETIME);
	cuda_scene_mend(&stage_scene);
	EQ(allocate(next, GPUMAP_NO_DEADLINE, &name), 0);
	is_calm(next);
}

/* Returns what a process of another user ends with: 0, or what was refused. */
static int be_stranger(void)
{
	struct gpumap_session *session;
	struct gpumap *own;
	uint64_t name = 0;

	if (!user_become(STRANGER, STRANGER))
		return 1;
	own = story_attach(&agent);
	if (own == NULL || gpumap_session_open(own, NULL, &session) != 0)
		return 2;
	return allocate(session, GPUMAP_NO_DEADLINE, &name) == 0 ? 0 : 3;
}

/* The next session may have the last one's memory only if it is of the same
 * user. */
static void so_does_another_user(void)
{
	struct gpumap_session *last;
	int status = -1;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "only root can become somebody else");
		return;
	}
	last = be_busy(COPY_MS);
	gpumap_session_close(last);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(be_stranger());
	waitpid(pid, &status, 0);
	EQ(status, 0);
	is_calm(NULL);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nenabled = no\n"
			   "[agent]\nrefresh = 10ms\n"
			   "[socket]\nmode = 0666\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	the_next_gets_it();
	a_deadline_holds();
	so_does_another_user();
	return stage_finish(&agent, map);
}

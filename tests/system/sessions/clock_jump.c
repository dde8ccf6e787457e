/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The monotonic clock goes on by minutes from one instant to the next, as in a
 * virtual machine that stood still, or for processes that were frozen.  No
 * limit counts that time: no worker and no probe is killed, no session and no
 * request is lost, and no client is told that the agent is silent once the
 * agent has run again.
 */

#include <sys/wait.h>

#include "tests/support/agent_segment.h"
#include "tests/support/jump.h"
#include "tests/support/mesh_agent.h"
#include "tests/support/raw.h"
#include "tests/support/story_rows.h"

#define JUMP_S 300
#define JOBS   32u
#define BYTES  (UINT64_C(1) << 20)
#define MANY   5     /* jumps, half a second apart */
#define TICKS  3u    /* of the agent, that have looked at everything */
#define STEPS  30000 /* of a millisecond, against hanging */

static struct agent agent;
static struct gpumap *map;
static struct gpumap_session *session;
static char hold[128]; /* file that keeps a worker from starting */

/* ---- waiting without a clock --------------------------------------------- */

static struct gpumap_health health(void)
{
	struct gpumap_health health = { .size = sizeof(health) };

	EQ(gpumap_health(map, &health), 0);
	return health;
}

static bool agent_ticks(uint64_t n)
{
	uint64_t until = health().tick + n;

	for (int i = 0; i < STEPS; i++) {
		struct gpumap_health now = { .size = sizeof(now) };

		gpumap_health(map, &now);
		if (now.tick >= until)
			return true;
		story_nap(1000);
	}
	return false;
}

static bool is_ready(uint32_t row, uint32_t restarts)
{
	for (int i = 0; i < STEPS; i++) {
		struct gpumap_device device = story_device(map, row);

		if (device.state == GPUMAP_READY && device.restarts >= restarts)
			return true;
		story_nap(1000);
	}
	return false;
}

static void no_process_was_killed(void)
{
	EQ(agent_count_log(&agent, "event=worker_killed"), 0);
	EQ(agent_count_log(&agent, "event=probe_killed"), 0);
	EQ(agent_count_log(&agent, "event=probe_died"), 0);
	EQ(agent_count_log(&agent, "event=watcher_"), 0);
	EQ(agent_count_log(&agent, "event=user_held_back"), 0);
}

/* ---- stories ------------------------------------------------------------- */

/* Jobs of both rows, with a jump when some have been done and some have not. */
static void jobs_go_on(unsigned int who)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .n = BYTES };
	struct gpumap_done done[2 * JOBS];
	uint32_t failed = 0, n = 0;

	EQ(gpumap_alloc(session, 0, BYTES, &job.dst), 0);
	for (uint32_t i = 0; i < JOBS; i++)
		failed += gpumap_submit(session, 0, &job, 1) != 0;
	jump(who, JUMP_S);
	while (n < JOBS - failed) {
		int got = gpumap_wait(session, done, 2 * JOBS,
				      GPUMAP_NO_DEADLINE);

		if (!OK(got > 0))
			break;
		for (int i = 0; i < got; i++)
			failed += done[i].status != 0;
		n += (uint32_t)got;
	}
	EQ(failed, 0);
	gpumap_free(session, job.dst);
	OK(agent_ticks(TICKS));
	EQ(story_run(session, 0, &(struct gpumap_job){ .op = GPUMAP_OP_NOP }),
	   0);
	no_process_was_killed();
}

/* As soon as the agent has run again. */
static void no_client_thinks_it_silent(void)
{
	struct agent_map m;
	uint64_t beat;

	if (!OK(agent_map_open(&agent, &m)))
		return;
	jump(JUMP_ALL, JUMP_S);
	beat = gm_get(&m.map.header->heartbeat);
	for (int i = 0; i < STEPS && gm_get(&m.map.header->heartbeat) == beat;
	     i++)
		story_nap(1000);
	EQ(health().stale, 0);
	agent_map_close(&m);
}

static void jump_often(void)
{
	for (int i = 0; i < MANY; i++) {
		story_nap(500000);
		jump(JUMP_ALL, JUMP_S);
	}
}

static int join(struct gpumap *at, uint32_t rank)
{
	struct gpumap_mesh_group world = mesh_group(at, NULL);
	uint8_t id[GPUMAP_MESH_ID_BYTES] = { 1 };
	struct gpumap_mesh_join ask = { .size = sizeof(ask),
					.mesh = "m",
					.epoch = world.epoch,
					.rank = rank,
					.version = NCCL_NOW,
					.id = rank == 0 ? id : NULL };
	uint64_t ticket;

	ask.deadline_ns = story_now() + STORY_LIMIT_NS;
	return gpumap_mesh_join(at, &ask, id, &ticket);
}

/* A child waits for an answer, another one for a change. */
static void requests_are_answered(void)
{
	struct gpumap_layers_request layers = { .size = sizeof(layers),
						.name = "l",
						.spec = "0:1" };
	uint32_t seen = gpumap_generation(map);
	int status[2] = { -1, -1 };
	pid_t pid[2];

	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			_exit(i == 0 ? -join(story_attach(&agent), 0)
				     : -gpumap_wait_change(map, seen,
							   GPUMAP_NO_DEADLINE));
	}
	jump_often();
	EQ(join(map, 1), 0);
	EQ(gpumap_layers_publish(map, &layers), 0);
	for (int i = 0; i < 2; i++) {
		EQ(waitpid(pid[i], &status[i], 0), pid[i]);
		EQ(WEXITSTATUS(status[i]), 0);
	}
}

/* HELLO comes after the clock's limit, and the first thing in its turn. */
static void a_quiet_connection_stays(void)
{
	struct raw c;
	char path[160];

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	raw_init(&c);
	EQ(raw_connect(&c, path), 0);
	EQ(gpumap_session_list(map, NULL, 0), 1); /* the agent has seen it */
	jump(JUMP_ALL, JUMP_S);
	EQ(gpumap_session_list(map, NULL, 0), 1);
	EQ(raw_hello(&c), 0);
	raw_close(&c);
}

static void a_worker_may_start(void)
{
	struct gpumap_device device = story_device(map, 0);
	int fd = open(hold, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	close(fd);
	kill((pid_t)device.worker_pid, SIGKILL);
	OK(agent_wait_log(&agent, "event=worker_died row=0"));
	for (int i = 0;
	     i < STEPS &&
	     agent_count_log(&agent, "event=worker_started row=0") < 2;
	     i++)
		story_nap(1000);
	jump(JUMP_ALL, JUMP_S);
	OK(agent_ticks(TICKS));
	unlink(hold);
	OK(is_ready(0, device.restarts + 1));
	no_process_was_killed();
}

/* ---- the cast ------------------------------------------------------------ */

static int publish_pair(void)
{
	static const uint32_t rows[] = { 0, 1 };
	const struct gpumap_mesh_request pair = { .size = sizeof(pair),
						  .name = "m",
						  .topology = GPUMAP_MESH_DATA,
						  .n_rows = 2,
						  .tp = 1,
						  .pp = 1,
						  .dp = 2,
						  .rows = rows };

	return gpumap_mesh_publish(map, &pair);
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	if (!jump_exec(argv)) {
		SKIP(1, "there is no clock to preload");
		return tap_done();
	}
	stage_make(&agent, "[host]\nrows = 2\n");
	snprintf(hold, sizeof(hold), "%s/hold", agent.dir);
	if (OK(jump_agent(&agent, hold)) && OK(agent_start(&agent)) &&
	    OK((map = story_attach(&agent))) && EQ(publish_pair(), 0) &&
	    EQ(gpumap_session_open(map, NULL, &session), 0)) {
		jobs_go_on(JUMP_ALL);
		jobs_go_on(1u << JUMP_AGENT);
		jump(JUMP_ALL & ~(1u << JUMP_AGENT), JUMP_S);
		jobs_go_on(1u << JUMP_WORKER);
		jobs_go_on(1u << JUMP_PROBE);
		jump(1u << JUMP_CLIENT | 1u << JUMP_AGENT, JUMP_S);
		no_client_thinks_it_silent();
		requests_are_answered();
		a_quiet_connection_stays();
		a_worker_may_start();
		gpumap_session_close(session);
	}
	jump_end();
	return stage_finish(&agent, map);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The monotonic clock goes on by minutes from one instant to the next, as in a
 * virtual machine that stood still, or for processes that were frozen.  No
 * limit counts that time: no worker and no probe is killed, no session and no
 * request is lost, and no client is told that the agent is silent once the
 * agent has run again.
 */

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/atomic.h"
#include "tests/support/agent_segment.h"
#include "tests/support/mesh_agent.h"
#include "tests/support/raw.h"
#include "tests/support/story_rows.h"

/* ---- clocks -------------------------------------------------------------- */

/* The programs' monotonic clocks, of tests/fake/clock.c. */

enum jump_who { JUMP_CLIENT, JUMP_AGENT, JUMP_WORKER, JUMP_PROBE, JUMPS };

#define JUMP_ALL ((1u << JUMPS) - 1)

#define PAGE     4096
#define VARIABLE "GPUMAP_FAKE_CLOCK"

static gm_a64 *clocks;
static char file[64];
static char of_agent[PATH_MAX];
static char scripts[2][PATH_MAX];

static bool make_file(void)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	void *page;

	if (fd < 0 || ftruncate(fd, PAGE) != 0)
		return false;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return false;
	clocks = page;
	return true;
}

/* Run the test again with a clock of its own, which is the clients'.  Returns
 * whether this process has it; a test without it cannot run. */
static bool jump_exec(char **argv)
{
	const char *top = getenv("abs_top_builddir");
	const char *others = getenv("ASAN_OPTIONS");
	char path[PATH_MAX], value[PATH_MAX];

	/* The pid stays. */
	snprintf(file, sizeof(file), "/dev/shm/gpumap-clock.%d", (int)getpid());
	if (!make_file())
		return false;
	if (getenv(VARIABLE) != NULL)
		return true;
	snprintf(path, sizeof(path), "%s/tests/fake/.libs/clock.so",
		 top != NULL ? top : ".");
	setenv("LD_PRELOAD", path, 1);
	snprintf(value, sizeof(value), "%d:%s", JUMP_CLIENT, file);
	setenv(VARIABLE, value, 1);
	/* The sanitizer would be the first. */
	snprintf(value, sizeof(value), "%s:verify_asan_link_order=0",
		 others != NULL ? others : "");
	setenv("ASAN_OPTIONS", value, 1);
	if (access(path, R_OK) == 0)
		execv("/proc/self/exe", argv);
	return false;
}

/* The agent gives its children an environment of their own. */
static const char *script(const struct agent *a, const char *hold,
			  const char *variable, enum jump_who who)
{
	const char *program = getenv(variable);
	char *path = scripts[who == JUMP_PROBE];
	FILE *to;

	snprintf(path, PATH_MAX, "%s/%s", a->dir, variable);
	to = fopen(path, "we");
	if (to == NULL)
		return NULL;
	fprintf(to,
		"#!/bin/sh\n"
		"export LD_PRELOAD='%s' ASAN_OPTIONS='%s' " VARIABLE "=%d:%s\n"
		"case \" $* \" in *\" --recover \"*) ;; *)\n"
		"	while [ -e %s ]; do sleep 0.1; done ;;\n"
		"esac\n"
		"exec %s \"$@\"\n",
		getenv("LD_PRELOAD"), getenv("ASAN_OPTIONS"), who, file, hold,
		program != NULL ? program : "false");
	fclose(to);
	return chmod(path, 0755) == 0 ? path : NULL;
}

/* Give the agent's programs such clocks, from the next start on.  Its workers
 * and its probe do not begin while there is a file @hold; recovery does. */
static bool jump_agent(struct agent *a, const char *hold)
{
	int n = 0;

	while (a->env[n] != NULL)
		n++;
	snprintf(of_agent, sizeof(of_agent), VARIABLE "=%d:%s", JUMP_AGENT,
		 file);
	a->env[n] = of_agent;
	a->worker = script(a, hold, "GPUMAP_WORKER", JUMP_WORKER);
	a->probe = script(a, hold, "GPUMAP_PROBE", JUMP_PROBE);
	return a->worker != NULL && a->probe != NULL;
}

/* The clocks of @who, a bit of enum jump_who each, go on by @seconds at
 * once. */
static void jump(unsigned int who, int64_t seconds)
{
	for (int i = 0; i < JUMPS; i++)
		if ((who >> i & 1) != 0)
			gm_put(&clocks[i],
			       gm_get(&clocks[i]) + (uint64_t)seconds);
}

/* Remove the files. */
static void jump_end(void)
{
	unlink(file);
}

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

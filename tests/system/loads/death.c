/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks deaths in the middle of a LOAD: the worker dies at any instant and at
 * each marked one, and the client dies.  Each entry ends once, files can be
 * read again with the next worker, and nothing of a session is left.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/story_rows.h"
#include "tests/support/load_file.h"

#define CONFIG "[host]\nrows = 2\n[load]\ndepth = 4\nread = 64K\n"
#define BYTES  (6 * MIB)
#define JOBS   3

static struct agent agent;
static struct gpumap *map;

static struct gpumap_session *session_open(struct gpumap *of, char **ret_memory)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 8 * MIB };
	struct gpumap_session *session = NULL;
	void *memory = NULL;

	if (gpumap_session_open(of, &opts, &session) != 0 ||
	    gpumap_alloc(session, 0, BYTES, &memory) != 0)
		exit(99);
	*ret_memory = memory;
	return session;
}

static void submit(struct gpumap_session *session, uint64_t file, char *memory)
{
	struct gpumap_job jobs[JOBS] = {
		{ .op = GPUMAP_OP_NOP },
		load_job(file, 1, BYTES - 1, memory),
		load_job(file, 0, MIB, memory),
	};

	for (int i = 0; i < JOBS; i++)
		jobs[i].cookie = (uint64_t)i;
	EQ(gpumap_submit(session, 0, jobs, JOBS), 0);
}

/* Take the completions: each job ends once, and in order.  Returns how many
 * ended with 0. */
static int collect(struct gpumap_session *session)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done[JOBS + 1];
	int n = 0, well = 0, ret = 1;

	while (n < JOBS && ret > 0) {
		ret = gpumap_wait(session, done + n, (uint32_t)(JOBS + 1 - n),
				  until);
		n += ret > 0 ? ret : 0;
	}
	if (!EQ(n, JOBS))
		NOTE("%d", ret);
	for (int i = 0; i < n && i < JOBS; i++) {
		EQ(done[i].cookie, i);
		OK(done[i].status == 0 || done[i].status == -EIO);
		well += done[i].status == 0;
	}
	EQ(gpumap_poll(session, done, 1), 0);
	return well;
}

static void loads_again(struct gpumap_session *session, uint64_t file,
			char *memory)
{
	memset(memory, 0, BYTES);
	EQ(load(session, 0, file, 5, BYTES - 5, memory), 0);
	OK(load_matches(memory, 5, BYTES - 5));
}

static void a_worker_dies_at_any_instant(void)
{
	char *memory;
	struct gpumap_session *session = session_open(map, &memory);
	int fd = load_file(".", BYTES), well = 0;
	uint64_t file = load_register(session, fd);

	loads_again(session, file, memory);
	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_device device = story_device(map, 0);

		submit(session, file, memory);
		story_nap(story_moment(round, 4000));
		kill((pid_t)device.worker_pid, SIGKILL);
		well += collect(session);
		if (!OK(story_back(map, 0, device.restarts)))
			break;
		loads_again(session, file, memory);
	}
	NOTE("%d of %d did well", well, JOBS * story_rounds());
	gpumap_session_close(session);
	close(fd);
}

static void a_client_dies_at_any_instant(void)
{
	int fd = load_file(".", BYTES);
	pid_t worker = (pid_t)story_device(map, 0).worker_pid;

	for (int round = 0; round < story_rounds(); round++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct gpumap *own = story_attach(&agent);
			char *memory;
			struct gpumap_session *session;
			uint64_t file = 0;

			if (!own)
				_exit(1);
			session = session_open(own, &memory);
			gpumap_buffer_register_file(session, fd, 0, &file);
			for (;;)
				load(session, 0, file, 1, BYTES - 1, memory);
		}
		story_nap(20000 + story_moment(round, 20000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(fd);
	story_lets_go(agent.pid, "agent-load.");
	story_lets_go(worker, "agent-load.");
	EQ(story_device(map, 0).worker_pid, worker);
}

/* Run an agent whose worker dies in one of its LOADs, at @point. */
static void die_at(const char *point)
{
	char ticket[128], *memory;
	struct gpumap_session *session;
	uint64_t file;
	int fd, well = JOBS;

	stage_death(&agent, CONFIG "[worker]\nuser = root\n", point, ticket);
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		session = session_open(map, &memory);
		fd = load_file(".", BYTES);
		file = load_register(session, fd);
		/* Storage that is slow at the moment is not read ahead of, so
		 * try until the point is reached. */
		for (int i = 0; i < 100 && well == JOBS; i++) {
			submit(session, file, memory);
			well = collect(session);
		}
		OK(well < JOBS);
		EQ(access(ticket, F_OK), -1); /* the worker died at its point */
		OK(story_back(map, 0, 0));
		loads_again(session, file, memory);
		gpumap_session_close(session);
		close(fd);
	}
	stage_recovered(&agent, map, ticket);
}

/* Is the file of these tests in memory?  Such a file is not read ahead. */
static bool is_memory(void)
{
	int fd = load_file(".", 0), seals = fcntl(fd, F_GET_SEALS);

	close(fd);
	return seals >= 0;
}

static void a_worker_dies_at_marked_instants(void)
{
	static const char *const points[] = {
		"load_ahead",   "load_begun",  "load_reading",
		"load_copied",  "load_ending",
#ifdef STAGE_CUDA
		"load_copying",
#endif
	};

	if (!stage_has_points())
		return;
	for (size_t i = is_memory() ? 1 : 0;
	     i < sizeof(points) / sizeof(points[0]); i++)
		for (int n = stage_strikes(); n > 0; n--)
			die_at(points[i]);
}

TAP_CASE()
{
	stage_make(&agent, CONFIG);
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		a_worker_dies_at_any_instant();
		a_client_dies_at_any_instant();
	}
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	a_worker_dies_at_marked_instants();
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}

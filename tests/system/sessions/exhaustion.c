/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Scarce things: credit in a queue, a worker for a row, descriptors for all
 * that the limits allow.
 */

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/raw.h"
#include "tests/support/tap.h"

#define MIB (UINT64_C(1) << 20)

static struct gpumap *attach(const struct agent *a)
{
	struct gpumap_attach_opts where = { .size = sizeof(where),
					    .instance = a->instance,
					    .runtime_dir = a->dir };
	struct gpumap *map = NULL;

	EQ(gpumap_attach(&where, &map), 0);
	return map;
}

/* ---- credit ------------------------------------------------------------ */

static int take(struct gpumap_session *s, uint32_t n)
{
	struct gpumap_done done[16];
	int taken = 0;

	while (n > 0) {
		int got = gpumap_wait(s, done, n, raw_now() + RAW_PATIENCE_NS);

		if (got <= 0)
			return got;
		for (int i = 0; i < got; i++)
			taken += done[i].status == 0;
		n -= (uint32_t)got;
	}
	return taken;
}

/* Completions that were not taken are credit that is not there: no worker has
 * to be slow for it. */
static void credit_is_all_there_is(struct gpumap *map)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = 16,
					    .arena_bytes = MIB };
	struct gpumap_job jobs[17] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_scatter_opts on_both = { .size = sizeof(on_both),
					       .rows = (uint32_t[]){ 0, 1 },
					       .n_rows = 2 };
	struct gpumap_tile tiles[2];
	struct gpumap_session *s;
	void *memory;

	EQ(gpumap_session_open(map, &opts, &s), 0);
	EQ(gpumap_alloc(s, 0, 4096, &memory), 0);
	EQ(gpumap_submit(s, 0, jobs, 17), -EINVAL);
	EQ(gpumap_submit(s, 0, jobs, 0), -EINVAL);
	EQ(gpumap_submit(s, 0, jobs, 15), 0);
	EQ(gpumap_submit(s, 0, jobs, 2), -EAGAIN);
	EQ(gpumap_submit(s, 0, jobs, 1), 0);
	EQ(gpumap_submit(s, 0, jobs, 1), -EAGAIN);
	/* Another row has a credit of its own; a scatter wants both. */
	EQ(gpumap_submit(s, 1, jobs, 16), 0);
	jobs[16] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
					.dst = memory,
					.n = 4096 };
	EQ(gpumap_scatter(s, &jobs[16], &on_both, tiles, 2), -EAGAIN);
	EQ(take(s, 16) + take(s, 16), 32);
	EQ(gpumap_scatter(s, &jobs[16], &on_both, tiles, 2), 2);
	EQ(gpumap_submit(s, 0, jobs, 16), 0);
	EQ(take(s, 16), 16);
	gpumap_session_close(s);
}

/* A client that submits without credit overwrites entries that were not read:
 * it loses its own entries, and other clients lose nothing. */
static void without_credit_nothing_comes(const char *path)
{
	struct gm_entry nops[16];
	struct raw greedy, good;
	uint32_t position, taken = 0;
	int32_t status;

	EQ(raw_open_queue(&greedy, path, 0, 16, MIB), 0);
	EQ(raw_open_queue(&good, path, 0, 16, MIB), 0);
	for (int i = 0; i < 16; i++)
		nops[i] = raw_entry(&greedy.row[0], GPUMAP_OP_NOP);
	for (int i = 0; i < 1000; i++)
		raw_post(&greedy.row[0], nops, 16);
	EQ(raw_do(&good, &good.row[0], nops), 0);
	while (raw_take(&greedy.row[0], &position, &status))
		taken++;
	OK(taken <= 16000);
	OK(!raw_is_over(&good));
	raw_close(&greedy);
	raw_close(&good);
}

/* ---- workers and descriptors -------------------------------------------- */

static void a_row_without_a_worker_is_refused(void)
{
	struct gpumap_session *session;
	struct gpumap *map;
	struct agent a;
	void *memory;

	agent_make(&a, NULL);
	a.worker = "/bin/false";
	if (!OK(agent_start_until(&a, "open")) || !OK((map = attach(&a))))
		return;
	if (EQ(gpumap_session_open(map, NULL, &session), 0)) {
		EQ(gpumap_alloc(session, 0, 64, &memory), -ENODEV);
		OK(agent_logged(&a, "event=back_off"));
		EQ(gpumap_alloc(session, 0, 64, &memory), -ENODEV);
		gpumap_session_close(session);
	}
	gpumap_detach(map);
	EQ(agent_kill(&a, SIGTERM), 0);
	agent_remove(&a);
}

/* Descriptors that it says it needs for so many connections. */
static uint32_t needed_with(struct agent *a, uint32_t connections)
{
	uint64_t needed;
	char text[128];

	snprintf(text, sizeof(text),
		 "[limits]\nsessions = 16\nconnections = %u\n", connections);
	agent_configure(a, text);
	if (!OK(agent_start(a)))
		return UINT32_MAX;
	EQ(agent_kill(a, SIGTERM), 0);
	needed = agent_logged_number(a, "few_descriptors", "needed");
	OK(needed != UINT64_MAX);
	return (uint32_t)needed;
}

/* Lowers its own limit for good: the last of all. */
static void too_few_descriptors_are_told_of(void)
{
	struct rlimit few = { 900, 900 }, now;
	struct agent a;

	if (getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_max < 4096) {
		SKIP(1, "this needs a hard limit of 4096 descriptors");
		return;
	}

	agent_make(&a, "[limits]\nsessions = 16\nconnections = 64\n");
	if (!OK(agent_start(&a)))
		return;
	EQ(agent_logged(&a, "event=few_descriptors"), false);
	EQ(agent_kill(&a, SIGTERM), 0);
	if (EQ(setrlimit(RLIMIT_NOFILE, &few), 0) && OK(agent_start(&a))) {
		OK(agent_logged(&a, "event=few_descriptors limit=900 "));
		OK(agent_logged(&a, "LimitNOFILE"));
		EQ(agent_kill(&a, SIGTERM), 0);
		/* Descriptors of each client that may have a tensor's file
		 * beside its own, and of its process. */
		EQ(needed_with(&a, 65) - needed_with(&a, 64), 3);
	}
	agent_remove(&a);
}

#define CLIENTS 600u

/* Clients that take every descriptor that they are given.  Returns how many
 * have one. */
static uint32_t take_all(struct raw *clients, const char *path)
{
	uint32_t n = 0, failed = 0;

	while (n < CLIENTS && failed < 3) {
		raw_init(&clients[n]);
		if (raw_open(&clients[n], path) == 0) {
			n++;
		} else {
			raw_close(&clients[n]);
			failed++;
		}
	}
	return n;
}

/* As many as a process under this limit can be. */
static pid_t take_many(struct raw *clients, const char *path)
{
	int ends[2];
	pid_t pid;
	char c;

	if (!EQ(pipe(ends), 0))
		return -1;
	pid = fork();
	if (pid == 0) {
		take_all(clients, path);
		close(ends[1]);
		pause();
		_exit(0);
	}
	close(ends[1]);
	EQ(read(ends[0], &c, 1), 0);
	close(ends[0]);
	return pid;
}

/* A worker's end gives some back, which these take first: they are connected,
 * and gpumapd has not accepted them yet. */
static void queue_up(struct raw *clients, uint32_t n, const char *path)
{
	for (uint32_t i = 0; i < n; i++) {
		raw_init(&clients[i]);
		EQ(raw_connect(&clients[i], path), 0);
	}
}

static pid_t worker_of(struct gpumap *map)
{
	struct gpumap_device device = { .size = sizeof(device) };

	EQ(gpumap_device_read(map, 0, &device), 0);
	return (pid_t)device.worker_pid;
}

/* Under the limit of the test before. */
static void a_worker_comes_back_without_any(void)
{
	static struct raw clients[CLIENTS], more[20], good;
	struct gm_entry nop;
	struct gpumap *map;
	char path[160];
	struct agent a;
	pid_t other;
	uint32_t n;

	agent_make(&a, "[limits]\nconnections-per-uid = 1024\n");
	snprintf(path, sizeof(path), "%s/%s.sock", a.dir, a.instance);
	if (!OK(agent_start(&a)) || !OK((map = attach(&a))))
		return;
	EQ(raw_open_queue(&good, path, 0, 16, MIB), 0);
	other = take_many(clients, path);
	n = take_all(clients, path);
	NOTE("%u clients beside %u", n, CLIENTS);
	OK(n > 100 && n < CLIENTS);
	OK(agent_logged(&a, "event=no_descriptors"));
	queue_up(more, 20, path);
	for (int round = 0; round < 3; round++) {
		pid_t pid = worker_of(map);
		uint32_t backs = agent_count_log(&a, "event=row_back ");

		EQ(kill(pid, SIGKILL), 0);
		while (agent_count_log(&a, "event=row_back ") == backs &&
		       agent_wait_log(&a, "event=worker_died ") &&
		       !agent_logged(&a, "event=spawn_failed"))
			raw_nap(1000000);
		OK(!agent_logged(&a, "event=spawn_failed"));
		nop = raw_entry(&good.row[0], GPUMAP_OP_NOP);
		EQ(raw_do(&good, &good.row[0], &nop), 0);
	}
	raw_close(&good);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	for (uint32_t i = 0; i < n; i++)
		raw_close(&clients[i]);
	for (uint32_t i = 0; i < 20; i++)
		raw_close(&more[i]);
	gpumap_detach(map);
	EQ(agent_kill(&a, SIGTERM), 0);
	agent_remove(&a);
}

static void credit_has_an_end(void)
{
	char path[160];
	struct gpumap *map;
	struct agent a;

	agent_make(&a, "[host]\nrows = 2\n");
	snprintf(path, sizeof(path), "%s/%s.sock", a.dir, a.instance);
	if (!OK(agent_start(&a)) || !OK((map = attach(&a)))) {
		agent_show_log(&a);
		return;
	}
	credit_is_all_there_is(map);
	without_credit_nothing_comes(path);
	gpumap_detach(map);
	EQ(agent_kill(&a, SIGTERM), 0);
	agent_remove(&a);
}

TAP_CASE()
{
	credit_has_an_end();
	a_row_without_a_worker_is_refused();
	too_few_descriptors_are_told_of();
	a_worker_comes_back_without_any();
	return tap_done();
}

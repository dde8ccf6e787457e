/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * An agent in a control group with little memory: what its clients may have
 * without a word in its configuration leaves the group some, and a client's
 * arena counts for the client's own group.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/raw.h"
#include "tests/support/tap.h"

/* ---- groups -------------------------------------------------------------- */

/* Control groups of the test's own, with a limit of memory.  Each is removed by
 * memory_group_end(), or when this process exits. */

struct memory_group {
	char path[128];
	bool is_old; /* before the unified hierarchy */
};

static const struct {
	const char *mount;
	const char *limit;
	const char *usage;
} hierarchies[] = {
	{ "/sys/fs/cgroup", "memory.max", "memory.current" },
	{ "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
	  "memory.usage_in_bytes" },
};

static bool put(const struct memory_group *group, const char *name,
		uint64_t value)
{
	char path[192];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", group->path, name);
	if (access(path, F_OK) != 0 || (file = fopen(path, "we")) == NULL)
		return false;
	ok = fprintf(file, "%" PRIu64, value) > 0;
	return fclose(file) == 0 && ok;
}

/* Returns false where this process may make no such group. */
static bool memory_group_make(struct memory_group *ret_group, const char *name,
			      uint64_t limit)
{
	for (int old = 0; old < 2; old++) {
		ret_group->is_old = old != 0;
		snprintf(ret_group->path, sizeof(ret_group->path),
			 "%s/gpumap-test.%d.%s", hierarchies[old].mount,
			 (int)getpid(), name);
		if (mkdir(ret_group->path, 0755) != 0)
			continue;
		if (put(ret_group, hierarchies[old].limit, limit))
			return true;
		rmdir(ret_group->path);
	}
	ret_group->path[0] = '\0';
	return false;
}

/* Move this process there, or to the group that all are in. */
static bool memory_group_enter(const struct memory_group *group)
{
	return put(group, "cgroup.procs", (uint64_t)getpid());
}

static bool memory_group_leave(const struct memory_group *group)
{
	return put(group, "../cgroup.procs", (uint64_t)getpid());
}

/* The bytes that its processes pay for. */
static uint64_t memory_group_usage(const struct memory_group *group)
{
	uint64_t bytes = UINT64_MAX;
	char path[192];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", group->path,
		 hierarchies[group->is_old].usage);
	file = fopen(path, "re");
	if (file == NULL)
		return bytes;
	if (fscanf(file, "%" SCNu64, &bytes) != 1)
		bytes = UINT64_MAX;
	fclose(file);
	return bytes;
}

/* Once its processes have ended or are elsewhere. */
static void memory_group_end(struct memory_group *group)
{
	if (group->path[0] != '\0')
		rmdir(group->path);
	group->path[0] = '\0';
}

#define MIB   (UINT64_C(1) << 20)
#define LIMIT (512 * MIB)
#define SOME  (40 * MIB)
#define LARGE (32 * MIB)
#define USERS 3u
#define USER  61360u

static struct agent agent;
static struct memory_group agents, clients;
static struct gpumap *map;

static bool attach(void)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };

	opts.instance = agent.instance;
	opts.runtime_dir = agent.dir;
	return gpumap_attach(&opts, &map) == 0;
}

static bool fill(struct gpumap_session *s, void *memory, uint64_t bytes)
{
	struct gpumap_job job = {
		.op = GPUMAP_OP_FILL, .dst = memory, .n = bytes, .pattern = 'x'
	};
	struct gpumap_done done = { .status = -1 };

	return gpumap_submit(s, 0, &job, 1) == 0 &&
	       gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE) == 1 &&
	       done.status == 0;
}

static void the_row_has_what_the_group_may_have(void)
{
	struct gpumap_device device = { .size = sizeof(device) };

	EQ(gpumap_device_read(map, 0, &device), 0);
	OK(device.total_bytes <= LIMIT);
	OK(device.total_bytes > LIMIT / 2);
	OK(device.free_bytes < LIMIT);
	OK(device.budget_bytes <= device.free_bytes);
}

static void half_of_it_is_the_largest_arena(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE,
					    .arena_bytes = LIMIT / 2 + 4096 };
	struct gpumap_session *s = NULL;

	EQ(gpumap_session_open(map, &opts, &s), -EDQUOT);
	OK(strstr(gpumap_refusal(map), "256 MiB") != NULL);
	opts.arena_bytes = LIMIT / 2;
	EQ(gpumap_session_open(map, &opts, &s), 0);
	gpumap_session_close(s);
}

/* In a group of its own.  Its exit status is what went wrong. */
static int client(void)
{
	struct gpumap_session *s = NULL;
	uint64_t before, agents_before;
	void *large, *small[8];

	if (!memory_group_enter(&clients) || !attach())
		return 1;
	if (gpumap_session_open(map, NULL, &s) != 0)
		return 2;
	/* The queue pair is not what is counted here. */
	if (gpumap_alloc(s, 0, 64, &small[0]) != 0 || !fill(s, small[0], 64))
		return 3;
	before = memory_group_usage(&clients);
	agents_before = memory_group_usage(&agents);
	if (gpumap_alloc(s, 0, LARGE, &large) != 0 || !fill(s, large, LARGE))
		return 4;
	for (int i = 0; i < 8; i++)
		if (gpumap_alloc(s, 0, MIB, &small[i]) != 0 ||
		    !fill(s, small[i], MIB))
			return 5;
	printf("# arena of %" PRIu64 " MiB: the client's group has %" PRIi64
	       " KiB more, the agent's %" PRIi64 "\n",
	       SOME / MIB,
	       (int64_t)(memory_group_usage(&clients) - before) / 1024,
	       (int64_t)(memory_group_usage(&agents) - agents_before) / 1024);
	if (memory_group_usage(&clients) < before + SOME / 10 * 9)
		return 6;
	if (memory_group_usage(&agents) > agents_before + SOME / 4)
		return 7;
	gpumap_session_close(s);
	return 0;
}

static void the_client_pays_for_its_arena(void)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int what = client();

		fflush(NULL);
		_exit(what);
	}
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
}

/* Open a session of this user by hand, as large as it may be, for the worker to
 * touch first. */
static uint64_t open_largest(struct raw *c, uint32_t user)
{
	uint64_t bytes = LIMIT / 2;
	char path[160];
	int ret;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	raw_init(c);
	if (!EQ(seteuid(USER + user), 0))
		return 0;
	ret = raw_connect(c, path);
	if (ret == 0)
		ret = raw_hello(c);
	EQ(seteuid(0), 0);
	if (!EQ(ret, 0))
		return 0;
	while (bytes >= MIB && raw_session(c, 64, 0, bytes) != 0)
		bytes -= MIB;
	return bytes >= MIB ? bytes : 0;
}

static void fill_all(struct raw *c, uint64_t bytes)
{
	struct gm_entry entry;

	if (bytes == 0 || !EQ(raw_queue(c, 0), 0))
		return;
	entry = raw_entry(&c->row[0], GPUMAP_OP_FILL);
	entry.n = bytes;
	EQ(raw_do(c, &c->row[0], &entry), 0);
}

static void all_users_together_leave_the_agent_some(void)
{
	struct raw c[USERS];
	uint64_t bytes[USERS], all = 0;

	for (uint32_t i = 0; i < USERS; i++) {
		bytes[i] = open_largest(&c[i], i);
		all += bytes[i];
	}
	EQ(bytes[0], LIMIT / 2);
	EQ(all, LIMIT / 4 * 3);
	OK(strstr(c[USERS - 1].refusal, "raise arenas in [limits]") != NULL);
	for (uint32_t i = 0; i < USERS; i++)
		fill_all(&c[i], bytes[i]);
	NOTE("the agent's group has %" PRIu64 " of %" PRIu64 " MiB",
	     memory_group_usage(&agents) / MIB, LIMIT / MIB);
	OK(memory_group_usage(&agents) > all);
	for (uint32_t i = 0; i < USERS; i++)
		raw_close(&c[i]);
	OK(!agent_logged(&agent, "event=worker_died"));
}

/* The score by which the kernel chooses a process to kill. */
static int oom_score(pid_t pid)
{
	char path[64];
	int score = 9999;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	file = fopen(path, "re");
	if (file == NULL || fscanf(file, "%d", &score) != 1)
		NOTE("%s cannot be read", path);
	if (file != NULL)
		fclose(file);
	return score;
}

/* May a process like the agent ask to be killed last? */
static bool may_be_last(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		FILE *file = fopen("/proc/self/oom_score_adj", "we");

		_exit(!file || fputs("-900", file) < 0 || fclose(file) != 0);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

static void a_worker_is_killed_before_the_agent(void)
{
	struct gpumap_device device = { .size = sizeof(device) };

	EQ(gpumap_device_read(map, 0, &device), 0);
	EQ(oom_score(agent.pid), may_be_last() ? -900 : 0);
	EQ(oom_score((pid_t)device.worker_pid), may_be_last() ? -500 : 0);
}

TAP_CASE()
{
	if (geteuid() != 0 || !memory_group_make(&agents, "agent", LIMIT) ||
	    !memory_group_make(&clients, "client", LIMIT)) {
		SKIP(1, "this process may make no control groups here");
		return tap_done();
	}
	agent_make(&agent, "[socket]\nmode = 0666\n");
	if (OK(memory_group_enter(&agents)) && OK(agent_start(&agent)) &&
	    OK(memory_group_leave(&agents)) && OK(attach())) {
		the_row_has_what_the_group_may_have();
		half_of_it_is_the_largest_arena();
		the_client_pays_for_its_arena();
		all_users_together_leave_the_agent_some();
		a_worker_is_killed_before_the_agent();
		gpumap_detach(map);
	}
	EQ(agent_kill(&agent, 15), 0);
	agent_remove(&agent);
	memory_group_end(&agents);
	memory_group_end(&clients);
	return tap_done();
}

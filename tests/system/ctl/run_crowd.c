/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks many commands at once under gpumapctl run, of sizes by chance and
 * killed by chance: no more is ever reserved than a row has, each command that
 * is not killed gets its turn, and nothing is reserved when all have ended.
 */

#include <fcntl.h>

#include "tests/support/dice.h"
#include "tests/support/run.h"

#define N_RUNS  64
#define ROUNDS  4
#define CARD    (UINT64_C(1) << 30)
#define LIMIT_S 120 /* against hanging, for a round */

static struct gpumap *map;
static char self[512];

/* "MILLISECONDS": hold the reservation so long. */
static int play_command(char **argv)
{
	story_nap(1000 * strtol(argv[1], NULL, 10));
	return 0;
}

/* ---- one command --------------------------------------------------------- */

struct member {
	pid_t pid;
	bool is_killed;
	uint64_t killed_ns;
	int row; /* 0: any */
};

static _Noreturn void become_member(int row, uint64_t mib, uint64_t ms)
{
	static const char *const rows[] = { "1,2", "1", "2" };
	char size[32], time[32];
	const char *argv[] = { run_program,    "--instance",
			       agent.instance, "--runtime-dir",
			       agent.dir,      "run",
			       "--no-bind",    "--wait",
			       "600",          "--cache-dir",
			       agent.dir,      "--reserve",
			       size,           "--rows",
			       rows[row],      row == 0 ? "--any" : "--no-bind",
			       "--",           self,
			       time,           NULL };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	snprintf(size, sizeof(size), "%" PRIu64 "M", mib);
	snprintf(time, sizeof(time), "%" PRIu64, ms);
	putenv(run_libraries);
	dup2(null, STDERR_FILENO);
	execv(run_program, (char **)(uintptr_t)argv);
	_exit(96);
}

static void start(struct member *m)
{
	/* A few want a whole card, and would starve if others overtook. */
	uint64_t mib = dice(8) == 0 ? 1024 : 1 + dice(700), ms = dice(40);

	*m = (struct member){ .row = (int)dice(3) };
	fflush(stdout);
	m->pid = fork();
	if (m->pid == 0)
		become_member(m->row, mib, ms);
}

/* ---- the reader ---------------------------------------------------------- */

static unsigned long looks, n_most;

/* No row has more reserved than it has, at a generation that lasted for the
 * whole look. */
static bool look(void)
{
	uint32_t seen = gpumap_generation(map), cursor = 0;
	struct gpumap_holder holder = { .size = sizeof(holder) };
	uint64_t sums[3] = { 0 };
	unsigned long n = 0;

	while (gpumap_holder_next(map, &cursor, &holder) == 1) {
		struct gpumap_layers head = { .size = sizeof(head) };
		struct gpumap_charge charges[3];

		if (gpumap_layers_read(map, holder.name, &head, NULL, NULL, 0,
				       charges, 3) != 0)
			return true; /* it has gone: the next look */
		for (uint32_t i = 0; i < head.n_rows; i++)
			sums[charges[i].row] += charges[i].weight_bytes;
		n++;
	}
	if (gpumap_generation(map) != seen)
		return true;
	looks++;
	n_most = n > n_most ? n : n_most;
	if (sums[1] <= CARD && sums[2] <= CARD)
		return true;
	NOTE("reserved: %" PRIu64 " of row 1, %" PRIu64 " of row 2", sums[1],
	     sums[2]);
	return false;
}

static bool holds(pid_t pid)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	uint32_t cursor = 0;

	while (gpumap_holder_next(map, &cursor, &holder) == 1)
		if (holder.pid == (uint32_t)pid)
			return true;
	return false;
}

/* Wait until a process that has ended holds nothing. */
static bool is_freed(const struct member *m, struct story_times times[2])
{
	uint64_t end = story_now();

	while (holds(m->pid) && story_now() - end < STORY_LIMIT_NS)
		story_nap(100);
	story_time(&times[m->is_killed], m->is_killed ? m->killed_ns : end);
	return !holds(m->pid);
}

/* Reap those that have ended.  Returns how many have, -1 when one has failed
 * that was not killed, or holds memory for ever. */
static int reap(struct member *members, struct story_times times[2])
{
	int n = 0, status;

	for (int i = 0; i < N_RUNS; i++) {
		struct member *m = &members[i];

		if (m->pid == 0 || waitpid(m->pid, &status, WNOHANG) != m->pid)
			continue;
		if (!is_freed(m, times)) {
			NOTE("process %d holds memory after its end", m->pid);
			return -1;
		}
		m->pid = 0;
		n++;
		if (!m->is_killed && status != 0) {
			NOTE("command %d ended with status %x", i, status);
			return -1;
		}
	}
	return n;
}

static void kill_one(struct member *members)
{
	struct member *m = &members[dice(N_RUNS)];

	if (m->pid == 0 || m->is_killed)
		return;
	m->is_killed = true;
	m->killed_ns = story_now();
	kill(m->pid, SIGKILL);
}

/* ---- rounds -------------------------------------------------------------- */

static bool play_round(struct story_times times[2])
{
	uint64_t until = story_now() + LIMIT_S * UINT64_C(1000000000);
	struct member members[N_RUNS];
	int n_started = 0, n_ended = 0, n;
	bool is_good = true;

	memset(members, 0, sizeof(members));
	while (is_good && n_ended < N_RUNS && story_now() < until) {
		if (n_started < N_RUNS)
			start(&members[n_started++]);
		is_good = look();
		if (dice(4) == 0 && n_started > 8)
			kill_one(members);
		n = reap(members, times);
		is_good = is_good && n >= 0;
		n_ended += n > 0 ? n : 0;
		story_nap((long)dice(2000));
	}
	is_good = OK(is_good) && EQ(n_ended, N_RUNS);
	for (int i = 0; i < N_RUNS; i++)
		if (members[i].pid > 0) {
			kill(members[i].pid, SIGKILL);
			waitpid(members[i].pid, NULL, 0);
		}
	OK(run_all_gone(map));
	EQ(gpumap_wait_list(map, NULL, 0), 0);
	return is_good;
}

TAP_CASE_ARGS(argc, argv)
{
	struct story_times times[2] = { { .n = 0 } };
	ssize_t n;

	if (argc > 1)
		return play_command(argv);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, RUN_NODE, "[host]\nrows = 1\n");
	run_find_program();
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	for (int i = story_rounds_or(ROUNDS); i > 0 && play_round(times); i--)
		continue;
	OK(looks > 0);
	NOTE("%lu looks, %lu reservations at most", looks, n_most);
	story_tell(&times[0],
		   "from the end of a command until it holds nothing");
	story_tell(&times[1], "from SIGKILL to one until it holds nothing");
	story_finish(&agent, map);
	return tap_done();
}

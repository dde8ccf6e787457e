/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that hostile clients cannot harm others.  One gpumapd serves one
 * client that checks every result of its work.  Beside that client run clients
 * that try all they can to do harm, one after the other and then all at once.
 *
 * No process may die, no result may be wrong, and the agent must give back all
 * that the attackers held.  The test prints how much longer the good client's
 * round trips take, beside their time under as many threads of the same
 * priority that only burn a CPU; so much is due to the scheduler.  No time is
 * asserted.
 *
 *	isolation [ATTACK]
 *
 *	GM_SEED		repeats a run's choices
 *	GM_ROUNDS	as of check-torture: a tenth of it, and at least 10,
 *			seconds instead of 2
 */

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/story_rows.h"
#include "tests/support/tap.h"
#include "tests/support/users.h"
#include "tests/system/hostile/attack.h"
#include "tests/system/hostile/honest_client.h"

#define ROWS       STAGE_ROWS
#define STRANGER   61400u /* the first of ATTACKS uids without processes */
#define ATTACKS    32
#define SECOND     UINT64_C(1000000000)
#define RECOVER_NS (60 * SECOND)

static const char config[] = "[socket]\n"
			     "mode = 0666\n"
			     "[host]\n"
			     "rows = 2\n"
			     "[limits]\n"
			     "connections = 512\n"
			     "connections-per-uid = 256\n"
			     "sessions = 96\n"
			     "sessions-per-uid = 48\n"
			     "arena-per-uid = 1G\n"
			     "hello-timeout = 100ms\n";

static struct agent agent;
static char socket_path[160];
static uint64_t seed, length_ns;
static const struct hostile_attack *attacks[ATTACKS];
static struct hostile_score *scores; /* one for each attack, shared */
static uint32_t n_attacks;

/* ---- the agent's state ------------------------------------------------- */

/* Everything that an attack could leave behind. */
struct state {
	uint32_t n_sessions;
	int agent_fds;
	int worker_fds[ROWS];
	long worker_kib[ROWS];        /* of address space */
	long worker_shared_kib[ROWS]; /* of shared memory, present */
	uint32_t pid[ROWS];
	uint32_t restarts[ROWS];
	uint32_t row_state[ROWS];
};

static int count_fds(uint32_t pid)
{
	char path[64];
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	dir = opendir(path);
	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static long read_status(uint32_t pid, const char *key)
{
	char path[64], line[256];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtol(line + strlen(key), NULL, 10);
	}
	if (file)
		fclose(file);
	return value;
}

static void look(struct good *g, struct state *ret_state)
{
	struct gpumap_session_info info[1];
	int n = gpumap_session_list(g->map, info, 1);

	*ret_state = (struct state){ .n_sessions = (uint32_t)n };
	ret_state->agent_fds = count_fds((uint32_t)agent.pid);
	for (uint32_t row = 0; row < ROWS; row++) {
		struct gpumap_device device = { .size = sizeof(device) };

		if (gpumap_device_read(g->map, row, &device) != 0)
			continue;
		ret_state->pid[row] = device.worker_pid;
		ret_state->restarts[row] = device.restarts;
		ret_state->row_state[row] = device.state;
		ret_state->worker_fds[row] = count_fds(device.worker_pid);
		ret_state->worker_kib[row] =
			read_status(device.worker_pid, "VmSize:");
		ret_state->worker_shared_kib[row] =
			read_status(device.worker_pid, "RssShmem:");
	}
}

/* The allocator may keep a little; a sanitizer's allocator keeps all it can. */
static bool is_mapped_as_before(const struct state *before,
				const struct state *now, uint32_t row)
{
	const char *build = getenv("GM_BUILD");

	return now->worker_kib[row] <= before->worker_kib[row] + STAGE_KIB ||
	       (build && strstr(build, "san"));
}

/* The journal's entries, somewhat over two pages each, stay once they were
 * used.  Their number is at most the number of sessions. */
static bool is_shared_as_before(const struct state *before,
				const struct state *now, uint32_t row)
{
	return now->worker_shared_kib[row] <=
	       before->worker_shared_kib[row] + 96 * 9;
}

/* A row keeps one descriptor for waking each other row, once it was used. */
static bool are_held_as_before(int before, int now)
{
	return now <= before + (int)ROWS;
}

static bool is_back(const struct state *before, const struct state *now)
{
	bool same = now->n_sessions == before->n_sessions &&
		    are_held_as_before(before->agent_fds, now->agent_fds);

	for (uint32_t row = 0; row < ROWS; row++)
		same = same &&
		       are_held_as_before(before->worker_fds[row],
					  now->worker_fds[row]) &&
		       is_mapped_as_before(before, now, row) &&
		       is_shared_as_before(before, now, row);
	return same;
}

static void nothing_is_left(struct good *g, const struct state *before)
{
	uint64_t until = raw_now() + RECOVER_NS;
	struct state now;

	do {
		raw_nap(5000000);
		look(g, &now);
	} while (!is_back(before, &now) && raw_now() < until);
	EQ(now.n_sessions, before->n_sessions);
	if (!OK(are_held_as_before(before->agent_fds, now.agent_fds)))
		NOTE("%d descriptors, %d before", now.agent_fds,
		     before->agent_fds);
	for (uint32_t row = 0; row < ROWS; row++) {
		OK(are_held_as_before(before->worker_fds[row],
				      now.worker_fds[row]));
		OK(is_mapped_as_before(before, &now, row));
		OK(is_shared_as_before(before, &now, row));
		NOTE("row %u: %ld KiB mapped, %ld before; %ld KiB shared, %ld "
		     "before",
		     row, now.worker_kib[row], before->worker_kib[row],
		     now.worker_shared_kib[row],
		     before->worker_shared_kib[row]);
	}
}

/* Read the state once the agent has finished with the sessions that ended. */
static void look_at_rest(struct good *g, struct state *ret_before)
{
	uint64_t until = raw_now() + RECOVER_NS;
	struct state now;
	uint32_t same = 0;

	look(g, ret_before);
	while (same < 10 && raw_now() < until) {
		raw_nap(5000000);
		look(g, &now);
		same = now.agent_fds == ret_before->agent_fds &&
				       now.n_sessions == ret_before->n_sessions
			       ? same + 1
			       : 0;
		*ret_before = now;
	}
}

static bool nobody_died(struct good *g, const struct state *before)
{
	struct state now;
	bool same = kill(agent.pid, 0) == 0;

	look(g, &now);
	for (uint32_t row = 0; row < ROWS; row++)
		same = same && now.pid[row] == before->pid[row] &&
		       now.restarts[row] == before->restarts[row] &&
		       now.row_state[row] == GPUMAP_DEVICE_READY;
	return same;
}

/* ---- attacks ----------------------------------------------------------- */

static void add(const struct hostile_attack *table, const char *only)
{
	for (; table->name && n_attacks < ATTACKS; table++) {
		if (!only || strcmp(only, table->name) == 0)
			attacks[n_attacks++] = table;
	}
}

/* Attackers need the CPU, as any user's process may.  The lowest priority keeps
 * that out of the figures. */
static void weaken(void)
{
	if (nice(19) < 0)
		_exit(98);
}

/* Run the attack in a process of its own, as a user of its own where that is
 * possible: all sessions of a user may end because of one. */
static pid_t attack(uint32_t which, uint64_t until_ns)
{
	pid_t parent = getpid(), pid = fork();
	struct hostile h = { .path = socket_path,
			     .n_rows = ROWS,
			     .random = seed ^ (which + 1) << 8,
			     .until_ns = until_ns,
			     .score = &scores[which] };

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	weaken();
	if (getppid() != parent ||
	    (geteuid() == 0 && !user_become(STRANGER + which, STRANGER)))
		_exit(98);
	/* The change of identity has cleared it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	attacks[which]->run(&h);
	_exit(0);
}

static pid_t burner(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		weaken();
		for (;;)
			gm_pause();
	}
	return pid;
}

/* Measure beside processes that only burn CPUs. */
static uint32_t beside_burners(struct good *g, uint32_t n, uint64_t length)
{
	pid_t pid[4 * ATTACKS];
	uint32_t p99;

	for (uint32_t i = 0; i < n; i++)
		pid[i] = burner();
	p99 = good_work(g, raw_now() + length);
	for (uint32_t i = 0; i < n; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	return p99;
}

/* The three times for each attack are measured one right after the other, for a
 * machine's speed changes from one minute to the next. */
struct p99 {
	uint32_t quiet;
	uint32_t burners;
	uint32_t attack;
	uint32_t n_threads;
};

static void measure_without(struct good *g, uint32_t n_threads, uint64_t each,
			    struct p99 *ret_p99)
{
	ret_p99->n_threads = n_threads;
	ret_p99->quiet = good_work(g, raw_now() + each);
	ret_p99->burners = beside_burners(g, n_threads, each);
}

static void tell_p99(const char *name, const struct p99 *p)
{
	NOTE("%-24s p99 %6.1f us quiet, %6.1f beside %2u burners, %6.1f under "
	     "attack: %4.1f times quiet, %4.1f times burners",
	     name, p->quiet / 1e3, p->burners / 1e3, p->n_threads,
	     p->attack / 1e3, (double)p->attack / p->quiet,
	     (double)p->attack / p->burners);
}

static void must_have_ended(pid_t pid, const char *name)
{
	int status = -1;

	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		NOTE("%s itself ended with %#x", name, (unsigned)status);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void each_alone(struct good *g, const struct state *before)
{
	uint64_t each = length_ns * 5 / 8 / n_attacks;

	for (uint32_t i = 0; i < n_attacks; i++) {
		const struct hostile_score *score = &scores[i];
		struct p99 p99;
		uint64_t until;
		pid_t pid;

		measure_without(g, attacks[i]->n_threads, each / 5, &p99);
		until = raw_now() + each / 5 * 3;
		pid = attack(i, until);
		p99.attack = good_work(g, until);
		must_have_ended(pid, attacks[i]->name);
		tell_p99(attacks[i]->name, &p99);
		NOTE("%s: %llu rounds, %llu ended", attacks[i]->name,
		     (unsigned long long)score->rounds,
		     (unsigned long long)score->ended);
		OK(score->rounds > 0);
		STR(score->lapse, "");
		EQ(g->wrong, 0);
		OK(nobody_died(g, before));
	}
}

static void all_at_once(struct good *g, const struct state *before)
{
	uint32_t n_threads = 0;
	pid_t pid[ATTACKS];
	struct p99 p99;
	uint64_t until;

	for (uint32_t i = 0; i < n_attacks; i++)
		n_threads += attacks[i]->n_threads;
	measure_without(g, n_threads, length_ns / 16, &p99);
	until = raw_now() + length_ns / 4;
	for (uint32_t i = 0; i < n_attacks; i++)
		pid[i] = attack(i, until);
	p99.attack = good_work(g, until);
	for (uint32_t i = 0; i < n_attacks; i++) {
		must_have_ended(pid[i], attacks[i]->name);
		STR(scores[i].lapse, "");
	}
	tell_p99("all at once", &p99);
	EQ(g->wrong, 0);
	OK(nobody_died(g, before));
}

static void tell_of(struct good *g)
{
	if (g->wrong)
		NOTE("%llu wrong, the first: %s", (unsigned long long)g->wrong,
		     g->what);
	NOTE("the good client: %llu jobs", (unsigned long long)g->jobs);
}

/* Use everything that is made once and kept: the segment's descriptor for
 * clients that ask for it, threads and their heaps. */
static void use_all_once(void)
{
	struct raw c;

	for (uint32_t row = 0; row < ROWS; row++) {
		int tries = 0;

		/* HELLO may come too late here, as in good_open(). */
		while (raw_open_queue(&c, socket_path, row, 16, GM_PAGE) != 0 &&
		       ++tries < 10)
			raw_close(&c);
		OK(tries < 10);
		OK(raw_ask(&c, GM_CONTROL_MAP, NULL, 0, NULL, 0, NULL) <= 0);
		raw_close(&c);
	}
}

static void story(struct good *g)
{
	struct state before;

	use_all_once();
	for (uint32_t i = 0; i < 16 * ROWS; i++) /* warm */
		good_job(g, i % ROWS);
	good_work(g, raw_now() + length_ns / 32);
	look_at_rest(g, &before);
	OK(before.pid[0] > 0 && before.pid[1] > 0);
	each_alone(g, &before);
	all_at_once(g, &before);
	tell_of(g);
	nothing_is_left(g, &before);
	OK(nobody_died(g, &before));
	/* A single attack may be one that no worker can notice. */
	if (n_attacks > 1)
		OK(agent_logged(&agent, "event=violation"));
	good_work(g, raw_now() + length_ns / 32);
	EQ(g->wrong, 0);
}

static void set_up(const char *only)
{
	const char *rounds = getenv("GM_ROUNDS"), *from = getenv("GM_SEED");
	unsigned long n = rounds ? strtoul(rounds, NULL, 0) : 0;

	seed = from ? strtoull(from, NULL, 0) : raw_now();
	NOTE("GM_SEED=%llu", (unsigned long long)seed);
	length_ns = 2 * SECOND;
	if (rounds)
		length_ns = n / 10 > 10 ? n / 10 * SECOND : 10 * SECOND;
	add(hostile_entries, only);
	add(hostile_memory, only);
	add(hostile_records, only);
	add(hostile_clients, only);
	add(hostile_buffers, only);
	if (n_attacks == 0) {
		NOTE("there is no attack called \"%s\"", only);
		exit(99);
	}
	scores = mmap(NULL, ATTACKS * sizeof(*scores), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (scores == MAP_FAILED)
		exit(99);
}

TAP_CASE_ARGS(argc, argv)
{
	struct good g = { 0 };

	set_up(argc > 1 ? argv[1] : NULL);
	stage_make(&agent, config);
	snprintf(socket_path, sizeof(socket_path), "%s/%s.sock", agent.dir,
		 agent.instance);
	if (!OK(agent_start(&agent)) ||
	    !OK(good_open(&g, &agent, ROWS, seed))) {
		agent_show_log(&agent);
		return tap_done();
	}
	story(&g);
	good_close(&g);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A client is killed with jobs in flight: its session, and every descriptor and
 * mapping of its memory in agent and workers, is gone; a neighbour on the same
 * rows notices nothing.  Where a child of the client lives on with all of the
 * client's descriptors, the session is gone all the same; and so it is where
 * the client lives on, too, and has closed it.
 */

#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/story.h"
#include "tests/support/story_rows.h"

#define JOBS     16u
#define ELEMENTS 262144u /* of each job: 1 MiB */
#define SMALL    (UINT64_C(64) << 20)
#define LARGE    (UINT64_C(1) << 30) /* of one row's range, touched */

static struct agent agent;
static struct gpumap *map;

/* ---- the client that is killed ----------------------------------------- */

static void keep_busy(struct gpumap_session *session, uint32_t *memory)
{
	struct gpumap_done done[JOBS];
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_U32,
				  .n = ELEMENTS };

	for (uint32_t i = 0;; i++) {
		job.dst = memory + (size_t)(i % JOBS) * ELEMENTS;
		job.pattern = i;
		if (gpumap_submit(session, i % 2 ? 0 : 1, &job, 1) == -EAGAIN)
			gpumap_wait(session, done, JOBS, GPUMAP_NO_DEADLINE);
	}
}

/* Take @bytes, then submit for ever; says 'r' once all is there. */
static void live(int ready, uint64_t bytes, bool have_child)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = JOBS,
					    .arena_bytes = bytes };
	struct gpumap *own = story_attach(&agent);
	struct gpumap_session *session;
	void *memory, *other;

	if (!own || gpumap_session_open(own, &opts, &session) != 0 ||
	    gpumap_alloc(session, 0, bytes, &memory) != 0 ||
	    gpumap_alloc(session, 1, 4096, &other) != 0)
		_exit(1);
	memset(memory, 1, bytes);
	if (have_child && fork() == 0) {
		/* Holds the connection and the memory, and says nothing. */
		close(ready);
		for (;;)
			pause();
	}
	if (write(ready, "r", 1) != 1)
		_exit(1);
	keep_busy(session, memory);
}

/* Returns its pid once it is busy, or -1.  Its children are in its group. */
static pid_t start_client(uint64_t bytes, bool have_child)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready) != 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		setpgid(0, 0);
		live(ready[1], bytes, have_child);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

/* ---- the neighbour ----------------------------------------------------- */

static struct gpumap_session *neighbour;
static uint32_t *its_memory;

/* One job on each row, proved.  Returns whether both were done. */
static bool neighbour_works(int round)
{
	struct gpumap_done done[2];
	bool good = true;

	for (uint32_t row = 0; row < 2; row++) {
		struct gpumap_job job = { .op = GPUMAP_OP_FILL,
					  .dtype = GPUMAP_DTYPE_U32,
					  .dst = its_memory + row * 1024,
					  .n = 1024,
					  .pattern = (uint64_t)round * 2 + row,
					  .cookie = row };

		good &= gpumap_submit(neighbour, row, &job, 1) == 0;
	}
	for (int n = 0; good && n < 2;) {
		int got = gpumap_wait(neighbour, done, 2,
				      story_now() + STORY_LIMIT_NS);

		good &= got > 0;
		for (int i = 0; i < got; i++)
			good &= done[i].status == 0;
		n += got;
	}
	return good && its_memory[1023] == (uint32_t)round * 2 &&
	       its_memory[2047] == (uint32_t)round * 2 + 1;
}

/* ---- rounds ------------------------------------------------------------ */

/* Shared memory of all sessions that the agent holds, and those of its workers
 * that this process may look at. */
static int held_by_all(void)
{
	int n = story_holds(agent.pid, "gpumap-");

	for (uint32_t row = 0; row < 2; row++) {
		pid_t worker = (pid_t)story_device(map, row).worker_pid;

		if (!story_sees(worker, 0))
			continue;
		n += story_holds(worker, "gpumap-arena");
		n += story_holds(worker, "gpumap-queues");
	}
	return n;
}

static struct {
	int unborn, undead, held, kept, disturbed;
	struct story_times gone, empty, free;
} sum;

/* All shared memory of the machine in bytes, or 0 where the kernel does not
 * say. */
static uint64_t shared_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	unsigned long long kib = 0;

	while (file && fgets(line, sizeof(line), file) &&
	       sscanf(line, "Shmem: %llu kB", &kib) != 1)
		;
	if (file)
		fclose(file);
	return (uint64_t)kib << 10;
}

/* Descriptors and mappings go before the pages do.  Others use shared memory
 * too, though not half as much as this. */
static void wait_free(uint64_t before, uint64_t bytes, uint64_t killed)
{
	uint64_t until = killed + STORY_LIMIT_NS;

	while (shared_memory() > before + bytes / 2 && story_now() < until)
		story_nap(500);
	if (story_now() < until)
		story_time(&sum.free, killed);
	else
		sum.kept++;
}

static bool wait_sessions(int n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (gpumap_session_list(map, NULL, 0) != n) {
		if (story_now() > until)
			return false;
		story_nap(200);
	}
	return true;
}

static bool wait_held(int n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (held_by_all() != n) {
		if (story_now() > until)
			return false;
		story_nap(500);
	}
	return true;
}

static void one_round(int round, uint64_t bytes, int held)
{
	uint64_t shared = shared_memory(), killed;
	pid_t client = start_client(bytes, false);

	if (client < 0 || gpumap_session_list(map, NULL, 0) != 2) {
		sum.unborn++;
		return;
	}
	sum.disturbed += !neighbour_works(round);
	story_nap(story_moment(round, 3000));
	kill(client, SIGKILL);
	waitpid(client, NULL, 0); /* the kernel's word */
	killed = story_now();
	if (wait_sessions(1))
		story_time(&sum.gone, killed);
	else
		sum.undead++;
	if (wait_held(held))
		story_time(&sum.empty, killed);
	else
		sum.held++;
	if (bytes > SMALL)
		wait_free(shared, bytes, killed);
	sum.disturbed += !neighbour_works(round + 1);
}

/* A gigabyte, or what a small machine can spare for it: each row has a range of
 * the size, and a user's arenas may be half of the memory in all. */
static uint64_t large(void)
{
	uint64_t spare = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			 (uint64_t)sysconf(_SC_PAGESIZE) / 4 /
			 (uint64_t)gpumap_device_count(map);

	return LARGE < spare ? LARGE : spare / SMALL * SMALL;
}

static void killed_client_leaves_nothing(void)
{
	int rounds = story_rounds(), held = held_by_all();
	uint64_t most = large();

	for (int round = 0; round < rounds; round++)
		one_round(round, round % 20 == 5 ? most : SMALL, held);
	EQ(sum.unborn, 0);
	EQ(sum.undead, 0);
	EQ(sum.held, 0);
	story_sees((pid_t)story_device(map, 0).worker_pid, 1);
	EQ(sum.kept, 0);
	EQ(sum.disturbed, 0);
	EQ(story_device(map, 0).restarts, 0);
	EQ(story_device(map, 1).restarts, 0);
	story_tell(&sum.gone, "session gone after a death");
	story_tell(&sum.empty, "memory given up after a death");
	story_tell(&sum.free, "of the large ones, its pages free");
}

static void forked_child_keeps_no_session_alive(void)
{
	int held = held_by_all();
	pid_t client = start_client(SMALL, true);

	if (!OK(client > 0))
		return;
	EQ(gpumap_session_list(map, NULL, 0), 2);
	kill(client, SIGKILL);
	waitpid(client, NULL, 0);
	OK(wait_sessions(1));
	OK(wait_held(held));
	EQ(kill(-client, 0), 0); /* the child has been there all the time */
	kill(-client, SIGKILL);
	OK(neighbour_works(1));
}

/* The same where the client lives on and closes its session itself. */
static void forked_child_keeps_no_closed_session(void)
{
	struct gpumap_session *session = NULL;
	int held = held_by_all();
	void *memory;
	pid_t child;

	if (!EQ(gpumap_session_open(map, NULL, &session), 0) ||
	    !EQ(gpumap_alloc(session, 0, SMALL, &memory), 0))
		return;
	EQ(gpumap_session_list(map, NULL, 0), 2);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	gpumap_session_close(session);
	OK(wait_sessions(1));
	OK(wait_held(held));
	EQ(waitpid(child, NULL, WNOHANG), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	OK(neighbour_works(1));
}

/* A child that closes what it has inherited ends nothing of its parent's. */
static void forked_child_ends_no_session(void)
{
	pid_t child = fork();

	if (child == 0) {
		gpumap_session_close(neighbour);
		gpumap_detach(map);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	EQ(gpumap_session_list(map, NULL, 0), 1);
	OK(neighbour_works(1));
}

TAP_CASE()
{
	void *memory;

	stage_make(&agent, "[host]\nrows = 2\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    EQ(gpumap_session_open(map, NULL, &neighbour), 0) &&
	    EQ(gpumap_alloc(neighbour, 0, 8192, &memory), 0)) {
		its_memory = memory;
		OK(neighbour_works(0)); /* now it has both queues */
		killed_client_leaves_nothing();
		forked_child_keeps_no_session_alive();
		forked_child_keeps_no_closed_session();
		forked_child_ends_no_session();
		gpumap_session_close(neighbour);
	}
	return stage_finish(&agent, map);
}

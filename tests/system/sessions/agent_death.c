/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent is killed: readers go on with what they have, and see STALE; every
 * session ends with -ECONNRESET; the workers end by themselves.  The next agent
 * goes on with the same mapping under a higher epoch, and the pins of the
 * living are as they were.
 */

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/story.h"
#include "tests/support/story_rows.h"

#define JOBS     8u
#define ELEMENTS 262144u

static struct agent agent;
static struct gpumap *map;
static struct gpumap_view pinned;
static uint64_t pin;
static int n_rows;

static struct gpumap_health health(void)
{
	struct gpumap_health h = { .size = sizeof(h) };

	gpumap_health(map, &h);
	return h;
}

/* Does the map still say what was published? */
static bool reads_well(void)
{
	struct gpumap_view view;

	if ((int)gpumap_device_count(map) != n_rows ||
	    gpumap_layers_view(map, "kept", &view) != 0 || view.n != 5)
		return false;
	for (uint32_t i = 0; i < 5; i++) {
		int row = i < 3 ? 0 : 1;

		if (gpumap_view_get(&view, i) != row ||
		    gpumap_view_get(&pinned, i) != row)
			return false;
	}
	return true;
}

static struct {
	int unready, unread, unreset, lived, epochs, unpinned, useless;
	struct story_times reset, ended, back;
} sum;

static int submit(struct gpumap_session *session, void *memory)
{
	struct gpumap_job jobs[JOBS];

	for (uint32_t i = 0; i < JOBS; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
					       .dtype = GPUMAP_DTYPE_U32,
					       .dst = memory,
					       .n = ELEMENTS };
	return gpumap_submit(session, 0, jobs, JOBS);
}

/* Every entry ends, and then the session says that it has. */
static bool is_reset(struct gpumap_session *session)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done[JOBS];
	int n = 0, got;

	for (;;) {
		got = gpumap_wait(session, done, JOBS, until);
		if (got < 0)
			break;
		for (int i = 0; i < got; i++) {
			if (done[i].status != 0 &&
			    done[i].status != -ECONNRESET)
				return false;
		}
		n += got;
	}
	/* Nothing in flight any more: only a new job can be told. */
	if (got == -ENODATA) {
		do {
			struct gpumap_job nop = { .op = GPUMAP_OP_NOP };

			got = gpumap_submit(session, 0, &nop, 1);
			if (got == 0 &&
			    gpumap_wait(session, done, JOBS, until) > 0 &&
			    done[0].status == -ECONNRESET)
				got = -ECONNRESET;
		} while (got == 0 && story_now() < until);
	}
	return n == (int)JOBS && got == -ECONNRESET;
}

static bool has_ended(uint32_t pid)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_lives((pid_t)pid)) {
		if (story_now() > until)
			return false;
		story_nap(500);
	}
	return true;
}

static bool one_session(struct gpumap_session **ret_session, void **ret_memory)
{
	return gpumap_session_open(map, NULL, ret_session) == 0 &&
	       gpumap_alloc(*ret_session, 0, ELEMENTS * 4, ret_memory) == 0;
}

static void kill_and_look(int round, struct gpumap_session *session)
{
	uint32_t workers[2] = { story_device(map, 0).worker_pid,
				story_device(map, 1).worker_pid };
	uint64_t killed;

	story_nap(story_moment(round, 2000));
	agent_kill(&agent, SIGKILL);
	killed = story_now();
	sum.unread += !reads_well();
	if (is_reset(session))
		story_time(&sum.reset, killed);
	else
		sum.unreset++;
	/* In some rounds the next agent has to wait for them. */
	if (round % 2) {
		sum.lived += !has_ended(workers[0]) || !has_ended(workers[1]);
		story_time(&sum.ended, killed);
	}
}

static void come_back(uint64_t epoch)
{
	uint64_t started = story_now();
	struct gpumap_health h;

	if (!agent_start(&agent)) {
		sum.unready++;
		return;
	}
	story_time(&sum.back, started);
	h = health();
	sum.unready += h.state != GPUMAP_READY || h.stale;
	sum.epochs += h.epoch != epoch + 1;
	sum.unread += !reads_well();
}

static void one_round(int round)
{
	struct gpumap_session *session;
	uint64_t epoch = health().epoch;
	void *memory;

	if (!one_session(&session, &memory) || submit(session, memory) != 0) {
		sum.useless++;
		return;
	}
	kill_and_look(round, session);
	gpumap_session_close(session);
	come_back(epoch);
}

static void readers_outlive_every_agent(void)
{
	int rounds = story_rounds();
	const uint32_t *before = pinned.entries;

	for (int round = 0; round < rounds && sum.unready == 0; round++)
		one_round(round);
	EQ(sum.useless, 0);
	EQ(sum.unread, 0);
	EQ(sum.unreset, 0);
	EQ(sum.lived, 0);
	EQ(sum.unready, 0);
	EQ(sum.epochs, 0);
	OK(pinned.entries == before);
	story_tell(&sum.reset, "-ECONNRESET after a death");
	story_tell(&sum.ended, "workers ended after a death");
	story_tell(&sum.back, "READY after a start");
}

static void silence_is_seen_as_stale(void)
{
	uint64_t epoch = health().epoch;

	EQ(health().stale, 0);
	agent_kill(&agent, SIGKILL);
	EQ(gpumap_wait_change(map, gpumap_generation(map),
			      story_now() + STORY_LIMIT_NS),
	   -ESTALE);
	EQ(health().stale, 1);
	OK(reads_well());
	come_back(epoch);
	EQ(health().stale, 0);
	EQ(sum.unready, 0);
}

/* Its worker cannot end: the next agent ends it, after a while, and has the
 * row. */
static void a_stopped_worker_does_not_keep_its_row(void)
{
	uint32_t restarts = story_device(map, 0).restarts;
	uint64_t epoch = health().epoch;
	struct gpumap_session *session;
	int status = 0;
	void *memory;
	pid_t worker;

	if (!OK(one_session(&session, &memory)))
		return;
	worker = (pid_t)story_device(map, 0).worker_pid;
	/* With another process of its group in the agent's session, the kernel
	 * does not count the stopped process as orphaned, and so does not
	 * continue it. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	OK(process_stop(worker));
	agent_kill(&agent, SIGKILL);
	come_back(epoch);
	EQ(sum.unready, 0);
	OK(agent_logged(&agent, "event=stale_worker_killed"));
	EQ(story_device(map, 0).restarts, restarts);
	EQ(waitpid(worker, &status, 0), worker);
	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	gpumap_session_close(session);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* The next agent leaves a lock that another process holds alone, and no client
 * waits for its row. */
static void a_stranger_keeps_the_lock(void)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	uint64_t epoch = health().epoch;
	char path[160];
	int fd;

	agent_kill(&agent, SIGTERM);
	shm_names_file(path, agent.instance, "row0.lock");
	fd = open(path, O_RDWR | O_CLOEXEC);
	EQ(fcntl(fd, F_SETLK, &whole), 0);
	OK(agent_start_until(&agent, "stale_worker_left"));
	OK(agent_wait_log(&agent, "event=row_state row=0 state=FAILED"));
	EQ(story_device(map, 0).state, GPUMAP_DEVICE_FAILED);
	close(fd);
	OK(agent_wait_log(&agent, "event=ready"));
	EQ(health().epoch, epoch + 1);
}

/* The claim was made of an agent that is long dead; the block is still ours
 * when the name has another. */
static void pins_are_known_to_every_agent(void)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = "kept",
						 .spec = "1:5" };

	EQ(gpumap_layers_publish(map, &request), 0);
	EQ(gpumap_view_get(&pinned, 0), 0);
	EQ(gpumap_view_get(&pinned, 3), 1);
	EQ(gpumap_unpin(map, pin), 0);
	EQ(gpumap_unpin(map, pin), -ENOENT);
}

TAP_CASE()
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = "kept",
						 .spec = "0:3;1:2" };

	stage_make(&agent, "[host]\nrows = 2\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    (n_rows = gpumap_device_count(map)) > 0 &&
	    EQ(gpumap_layers_publish(map, &request), 0) &&
	    EQ(gpumap_layers_pin(map, "kept", &pinned, &pin), 0)) {
		readers_outlive_every_agent();
		silence_is_seen_as_stale();
		a_stopped_worker_does_not_keep_its_row();
		if (STAGE_ROWS == 2) /* no matter of cards */
			a_stranger_keeps_the_lock();
		pins_are_known_to_every_agent();
	}
	return stage_finish(&agent, map);
}

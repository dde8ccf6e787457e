/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A worker is killed with jobs in flight: each of them ends exactly once, with
 * 0 and its work done or with -EIO; the row comes back, its session goes on;
 * the other rows notice nothing.
 */

#include "tests/support/story.h"
#include "tests/support/story_rows.h"

#define JOBS     64u
#define ELEMENTS 65536u /* of each job: 256 KiB, so that some are in flight */

static struct agent agent;
static struct gpumap *map;

/* A session on each row, with memory of its own for each job. */
struct side {
	struct gpumap_session *session;
	uint32_t row;
	uint32_t *memory;
	uint32_t ended[JOBS]; /* times */
	int32_t status[JOBS];
};

static struct side sides[STAGE_ROWS];

static uint32_t pattern(int round, uint32_t job)
{
	return (uint32_t)round << 16 | job << 4 | 9;
}

static bool open_side(struct side *s, uint32_t row)
{
	/* A user's arenas may be as much as half of a small machine's
	 * memory. */
	const struct gpumap_session_opts opts = {
		.size = sizeof(opts),
		/* Pages that were never touched keep a worker busy. */
		.flags = GPUMAP_SESSION_SPARSE,
		.arena_bytes = (uint64_t)JOBS * ELEMENTS * 4,
	};
	void *memory;

	s->row = row;
	if (gpumap_session_open(map, &opts, &s->session) != 0 ||
	    gpumap_alloc(s->session, row, opts.arena_bytes, &memory) != 0)
		return false;
	s->memory = memory;
	return true;
}

static bool open_sides(void)
{
	for (uint32_t row = 0; row < STAGE_ROWS; row++) {
		if (!open_side(&sides[row], row))
			return false;
	}
	return true;
}

static void close_sides(void)
{
	for (uint32_t row = 0; row < STAGE_ROWS; row++)
		gpumap_session_close(sides[row].session);
}

static int submit(struct side *s, int round)
{
	struct gpumap_job jobs[JOBS];

	memset(s->ended, 0, sizeof(s->ended));
	for (uint32_t i = 0; i < JOBS; i++)
		jobs[i] = (struct gpumap_job){
			.op = GPUMAP_OP_FILL,
			.dtype = GPUMAP_DTYPE_U32,
			.dst = s->memory + (size_t)i * ELEMENTS,
			.n = ELEMENTS,
			.pattern = pattern(round, i),
			.cookie = i,
		};
	return gpumap_submit(s->session, s->row, jobs, JOBS);
}

/* Take all completions, and look for one too many.  Returns how many came. */
static uint32_t collect(struct side *s)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done[JOBS];
	uint32_t n = 0;
	int got;

	while (n < JOBS) {
		got = gpumap_wait(s->session, done, JOBS, until);
		if (got < 0) {
			NOTE("row %u: wait says %d after %u", s->row, got, n);
			return n;
		}
		for (int i = 0; i < got; i++) {
			s->ended[done[i].cookie]++;
			s->status[done[i].cookie] = done[i].status;
		}
		n += (uint32_t)got;
	}
	got = gpumap_poll(s->session, done, JOBS);
	return got > 0 ? n + (uint32_t)got : n;
}

/* Did each job end once, as it may, and is the work of each 0 done? */
static bool all_ended(const struct side *s, int round, bool may_fail)
{
	for (uint32_t i = 0; i < JOBS; i++) {
		const uint32_t *at = s->memory + (size_t)i * ELEMENTS;

		if (s->ended[i] != 1 ||
		    (s->status[i] != 0 && (!may_fail || s->status[i] != -EIO)))
			return false;
		if (s->status[i] == 0 &&
		    (at[0] != pattern(round, i) ||
		     at[ELEMENTS - 1] != pattern(round, i)))
			return false;
	}
	return true;
}

static uint32_t count_failed(const struct side *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < JOBS; i++)
		n += s->status[i] != 0;
	return n;
}

/* The counts of all rounds. */
static struct {
	int refused, lost, wrong, disturbed, absent, useless, failed;
	struct story_times ended, ready;
} sum;

static void one_round(int round)
{
	struct gpumap_device device = story_device(map, 0);
	uint64_t killed;

	for (uint32_t row = 0; row < STAGE_ROWS; row++) {
		if (submit(&sides[row], round) == 0)
			continue;
		sum.refused++;
		return;
	}
	story_nap(story_moment(round, 3000));
	kill((pid_t)device.worker_pid, SIGKILL);
	killed = story_now();
	sum.lost += collect(&sides[0]) != JOBS;
	story_time(&sum.ended, killed);
	sum.wrong += !all_ended(&sides[0], round, true);
	sum.failed += (int)count_failed(&sides[0]);
	for (uint32_t row = 1; row < STAGE_ROWS; row++)
		sum.disturbed += collect(&sides[row]) != JOBS ||
				 !all_ended(&sides[row], round, false);
	if (story_back(map, 0, device.restarts))
		story_time(&sum.ready, killed);
	else
		sum.absent++;

	/* The same session, on the new worker. */
	sum.useless += submit(&sides[0], round + 1) != 0 ||
		       collect(&sides[0]) != JOBS ||
		       !all_ended(&sides[0], round + 1, false);
}

static uint32_t restarts_of_others(void)
{
	uint32_t n = 0;

	for (uint32_t row = 1; row < STAGE_ROWS; row++)
		n += story_device(map, row).restarts;
	return n;
}

static void killed_worker_owes_nothing(void)
{
	int rounds = story_rounds();
	uint32_t restarts = story_device(map, 0).restarts;
	uint32_t others = restarts_of_others();
	int held = story_holds_at_rest(agent.pid);

	for (int round = 0; round < rounds; round++)
		one_round(round);
	EQ(sum.refused, 0);
	EQ(sum.lost, 0);
	EQ(sum.wrong, 0);
	EQ(sum.disturbed, 0);
	EQ(sum.absent, 0);
	EQ(sum.useless, 0);
	EQ(story_device(map, 0).restarts - restarts, rounds);
	EQ(restarts_of_others() - others, 0);
	OK(story_gives_back(agent.pid, held));
	NOTE("%d of %d jobs ended with -EIO", sum.failed, rounds * (int)JOBS);
	story_tell(&sum.ended, "all ended after a kill");
	story_tell(&sum.ready, "READY after a kill");
}

/* A stopped worker cannot report anything: its monitor finds it, and ends
 * it. */
static void stopped_worker_is_replaced(void)
{
	struct gpumap_device device = story_device(map, 0);
	uint64_t stopped = story_now();
	struct story_times times = { 0 };

	EQ(kill((pid_t)device.worker_pid, SIGSTOP), 0);
	EQ(submit(&sides[0], 1), 0);
	EQ(collect(&sides[0]), JOBS);
	OK(all_ended(&sides[0], 1, true));
	if (OK(story_back(map, 0, device.restarts)))
		story_time(&times, stopped);
	OK(agent_wait_log(&agent, "stopped by a signal"));
	story_tell(&times, "READY after a stop");
}

/* No client can close a session while its worker is being replaced. */
static void session_may_end_while_its_worker_is_dead(void)
{
	int held;

	for (int i = 0; i < 10; i++) {
		struct gpumap_device device = story_device(map, 0);
		struct side side = { 0 };

		if (!OK(open_side(&side, 0)))
			return;
		/* Deaths before the first job are waited for, on purpose. */
		EQ(submit(&sides[0], i), 0);
		EQ(collect(&sides[0]), JOBS);
		EQ(submit(&side, i), 0);
		kill((pid_t)device.worker_pid, SIGKILL);
		story_nap(story_moment(i, 4000));
		gpumap_session_close(side.session);
		OK(story_back(map, 0, device.restarts));
	}
	for (int i = 0; i < STORY_LOOKS; i++) {
		held = story_holds(agent.pid, "gpumap-arena");
		if (held == STAGE_ROWS)
			break;
		story_nap(1000);
	}
	EQ(held, STAGE_ROWS); /* those of the sides */
}

/* One life of an agent whose first recovery process, or whose worker itself,
 * dies at @point; then kills, as in any round, until one died there. */
static void die_at(const char *point)
{
	char ticket[128];

	stage_death(&agent, "[host]\nrows = 2\n[worker]\nuser = root\n", point,
		    ticket);
	memset(&sum, 0, sizeof(sum));
	memset(sides, 0, sizeof(sides));
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    OK(open_sides())) {
		/* Nothing is owed where the worker has ended all jobs when it
		 * is killed, and then no process comes to @point. */
		for (int n = 1; n <= 20 && access(ticket, F_OK) == 0; n++)
			one_round(n);
		EQ(sum.refused + sum.lost + sum.wrong + sum.disturbed, 0);
		EQ(sum.absent + sum.useless, 0);
		EQ(access(ticket, F_OK), -1); /* one died there */
		close_sides();
	}
	stage_recovered(&agent, map, ticket);
}

static void recoveries_may_die_too(void)
{
	static const char *const points[] = { "end_given", "recover_advanced",
					      "recover_posted",
					      "worker_recovered" };

	if (!stage_has_points())
		return;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		for (int n = stage_strikes(); n > 0; n--)
			die_at(points[i]);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 2\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    OK(open_sides())) {
		killed_worker_owes_nothing();
		stopped_worker_is_replaced();
		session_may_end_while_its_worker_is_dead();
		close_sides();
	}
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	recoveries_may_die_too();
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}

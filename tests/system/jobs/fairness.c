/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that a row is shared fairly by thirty-two sessions that all have more
 * jobs than it can run.  At any instant each session has had as much as the
 * others, within a tenth and the rest of a round, in bytes and in entries.
 *
 * The worker is stopped for the count, so that the figures show its fairness
 * and not the speed of this process.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/worker/queue/drr.h"
#include "gpumap.h"
#include "tests/support/story.h"

#define SESSIONS 32u
#define DEPTH    1024u
#define JOBS     1000u
#define KIB      UINT64_C(1024)
#define TRIES    20

static struct agent agent;
static struct gpumap *map;

static struct gpumap_session *sessions[SESSIONS];
static void *memory[SESSIONS];
static uint64_t bytes_of[SESSIONS]; /* of a job */
static uint32_t asked[SESSIONS];    /* jobs of each */
static uint32_t had[SESSIONS];      /* those that have ended */
static uint32_t n_failed;           /* of all */

/* ---- helpers ----------------------------------------------------------- */

static bool open_all(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = DEPTH,
					    .arena_bytes = 1 << 20 };

	for (uint32_t i = 0; i < SESSIONS; i++) {
		if (gpumap_session_open(map, &opts, &sessions[i]) != 0 ||
		    gpumap_alloc(sessions[i], 0, 512 * KIB, &memory[i]) != 0)
			return false;
		memset(memory[i], 1, 512 * KIB);
	}
	return true;
}

static void close_all(void)
{
	for (uint32_t i = 0; i < SESSIONS; i++)
		gpumap_session_close(sessions[i]);
}

static int submit_all(void)
{
	int ret = 0;

	memset(asked, 0, sizeof(asked));
	memset(had, 0, sizeof(had));
	for (uint32_t i = 0; ret == 0 && i < SESSIONS; i++) {
		const struct gpumap_job job = { .op = GPUMAP_OP_FILL,
						.dst = memory[i],
						.n = bytes_of[i] };

		while (ret == 0 && asked[i] < JOBS) {
			ret = gpumap_submit(sessions[i], 0, &job, 1);
			asked[i] += ret == 0;
		}
	}
	return ret;
}

/* Count the ended jobs of each session.  Returns the least share of a session's
 * jobs, in percent. */
static uint32_t take(bool to_the_end)
{
	static struct gpumap_done done[DEPTH];
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t least = 100, share;

	for (uint32_t i = 0; i < SESSIONS; i++) {
		int got;

		do {
			got = gpumap_poll(sessions[i], done, DEPTH);
			for (int j = 0; j < got; j++)
				n_failed += done[j].status != 0;
			had[i] += got > 0 ? (uint32_t)got : 0;
		} while (got > 0 || (to_the_end && had[i] < asked[i] &&
				     story_now() < until));
		share = asked[i] > 0 ? had[i] * 100 / asked[i] : 100;
		least = share < least ? share : least;
	}
	return least;
}

/* Have all jobs of any session ended? */
static bool any_is_done(void)
{
	bool any = false;

	for (uint32_t i = 0; i < SESSIONS; i++)
		any |= had[i] == JOBS;
	return any;
}

/* The worker of a row that serves. */
static pid_t worker_now(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_device d = story_device(map, 0);

	while (d.state != GPUMAP_DEVICE_READY && story_now() < until) {
		story_nap(1000);
		d = story_device(map, 0);
	}
	return (pid_t)d.worker_pid;
}

/* Stop the worker when at least @percent of each session's jobs have ended, and
 * not all jobs of any session.  Returns false where this process was too slow
 * to see that: the agent kills a worker that is stopped when it looks twice, a
 * second apart. */
static bool count(pid_t worker, uint32_t percent)
{
	uint32_t least;

	n_failed = 0;
	if (!process_stop(worker))
		return false;
	if (submit_all() != 0) {
		OK(!story_lives(worker));
		return false;
	}
	kill(worker, SIGCONT);
	STORY_WAIT_WHILE(take(false) < percent && !any_is_done());
	if (!process_stop(worker))
		return false;
	least = take(false);
	EQ(n_failed, 0);
	if (any_is_done()) {
		/* Too late, unless this session was served before others. */
		OK(least >= percent / 2);
		return false;
	}
	return least >= percent;
}

static void drain(pid_t worker)
{
	kill(worker, SIGCONT);
	EQ(take(true), 100);
}

/* ---- stories ----------------------------------------------------------- */

/* @by_bytes: compare the sessions by bytes, not by entries. */
static void all_have_the_same(const char *what, uint32_t percent, bool by_bytes)
{
	uint64_t least = UINT64_MAX, most = 0;
	uint64_t round = by_bytes ? GM_ROUND_BYTES : GM_ROUND_ENTRIES;
	bool seen = false;
	pid_t worker = 0;

	for (int i = 0; i < TRIES && !seen; i++) {
		worker = worker_now();
		seen = count(worker, percent);
		if (!seen)
			drain(worker);
	}
	if (!seen) {
		SKIP(1, "this machine stands still for too long to count");
		return;
	}
	for (uint32_t i = 0; i < SESSIONS; i++) {
		uint64_t n = by_bytes ? had[i] * bytes_of[i] : had[i];

		least = n < least ? n : least;
		most = n > most ? n : most;
	}
	NOTE("%s: %lu to %lu", what, (unsigned long)least, (unsigned long)most);
	/* Within a round, some sessions have had their share and some have
	 * not.  Shares by entries would differ by two to one. */
	most -= most > least + round ? round : most - least;
	OK(most * 10 <= least * 12);
	drain(worker);
}

static void by_bytes(void)
{
	for (uint32_t i = 0; i < SESSIONS; i++)
		bytes_of[i] = 256 * KIB;
	all_have_the_same("bytes, jobs of one size", 40, true);
}

/* A session with larger jobs has no larger share. */
static void by_bytes_of_all_sizes(void)
{
	for (uint32_t i = 0; i < SESSIONS; i++)
		bytes_of[i] = (i % 2 ? 512 : 256) * KIB;
	all_have_the_same("bytes, jobs of two sizes", 40, true);
}

static void by_entries(void)
{
	for (uint32_t i = 0; i < SESSIONS; i++)
		bytes_of[i] = 2 * KIB;
	all_have_the_same("entries", 70, false);
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 1\n"
			   "[limits]\nsessions-per-second = 1000000\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	if (OK(open_all())) {
		by_bytes();
		by_bytes_of_all_sizes();
		by_entries();
	}
	close_all();
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}

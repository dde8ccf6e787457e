/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks two rows that drain while each of them copies out of the other.
 * Neither waits for requests that the other does not get any more.  All
 * submitted jobs are done, unless one row had drained before the other was
 * told.
 *
 * With STAGE_CUDA the rows are cards.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/story.h"
#include "tests/support/story_rows.h"

#define MIB      (UINT64_C(1) << 20)
#define SESSIONS 6
#define COPIES   3 /* of each session, on each row */
#define BYTES    (10 * MIB)
#define ROUNDS   2

static struct agent agent;

struct side {
	struct gpumap_session *session;
	void *here[2];
	uint64_t buffer[2]; /* not exportable, so it must be lent */
};

static struct gpumap_job copy_to(const struct side *s, uint32_t row,
				 uint64_t bytes)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				    .dtype = GPUMAP_DTYPE_U8,
				    .dst = s->here[row],
				    .src_buffer = s->buffer[!row],
				    .n = bytes };
}

/* Open a session and copy once on each row, so that the rows have agreed on the
 * way of their copies. */
static bool open_side(struct gpumap *map, struct side *s)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 2 * BYTES + MIB };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done;

	if (!EQ(gpumap_session_open(map, &opts, &s->session), 0))
		return false;
	for (uint32_t row = 0; row < 2; row++)
		if (!EQ(gpumap_alloc(s->session, row, BYTES, &s->here[row]),
			0) ||
		    !EQ(gpumap_buffer_alloc(s->session, row, BYTES, 0, until,
					    &s->buffer[row]),
			0))
			return false;
	for (uint32_t row = 0; row < 2; row++) {
		struct gpumap_job job = copy_to(s, row, MIB);

		if (!EQ(gpumap_submit(s->session, row, &job, 1), 0) ||
		    !EQ(gpumap_wait(s->session, &done, 1, until), 1) ||
		    !EQ(done.status, 0))
			return false;
	}
	return true;
}

static void submit_all(const struct side *s)
{
	for (uint32_t row = 0; row < 2; row++) {
		struct gpumap_job job = copy_to(s, row, BYTES);

		for (int i = 0; i < COPIES; i++)
			EQ(gpumap_submit(s->session, row, &job, 1), 0);
	}
}

/* Where the other row had drained before this one was told, its memory is
 * gone. */
static void collect(const struct side *s, int *n_done)
{
	for (int i = 0; i < 2 * COPIES; i++) {
		struct gpumap_done done = { .status = 1 };

		if (!EQ(gpumap_wait(s->session, &done, 1,
				    story_now() + STORY_LIMIT_NS),
			1))
			return;
		*n_done += done.status == 0;
		if (done.status != 0)
			EQ(done.status, -ESTALE);
	}
}

static void by_hand(struct gpumap *map)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		map = story_attach(&agent);
		_exit(!map || gpumap_device_drain(map, 0) != 0);
	}
	EQ(gpumap_device_drain(map, 1), 0);
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
}

static void play(bool is_by_hand, int round)
{
	struct side side[SESSIONS] = { 0 };
	struct gpumap *map = NULL;
	bool good = OK(agent_start(&agent)) &&
		    OK((map = story_attach(&agent)) != NULL);
	int n_done = 0;

	for (int i = 0; i < SESSIONS && good; i++)
		good = open_side(map, &side[i]);
	for (int i = 0; i < SESSIONS && good; i++)
		submit_all(&side[i]);
	story_nap(story_moment(round + 1, 20000));
	if (is_by_hand)
		by_hand(map);
	else
		kill(agent.pid, SIGTERM);
	for (int i = 0; i < SESSIONS && good; i++)
		collect(&side[i], &n_done);
	NOTE("%d of %d were done", n_done, SESSIONS * 2 * COPIES);
	if (!is_by_hand)
		EQ(n_done, SESSIONS * 2 * COPIES);
	if (is_by_hand)
		kill(agent.pid, SIGTERM);
	EQ(agent_wait(&agent), 0);
	OK(!agent_logged(&agent, "event=worker_killed"));
	if (tap_failures)
		agent_show_log(&agent);
	for (int i = 0; i < SESSIONS; i++)
		gpumap_session_close(side[i].session);
	gpumap_detach(map);
}

TAP_CASE()
{
	stage_make(&agent, "[agent]\n"
			   "drain = 60s\n"
			   "drain-row = 15s\n"
			   "[host]\n"
			   "rows = 2\n"
			   "[limits]\n"
			   "arena-per-uid = 4G\n");
	for (int round = 0; round < ROUNDS && !tap_failures; round++) {
		play(false, round);
		play(true, round);
	}
	stage_end(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that bulk copies of several users come to an end.  The users load
 * files and copy between rows, in both directions at once, one user in one
 * session and the others in several, and fill these rows with other jobs.  A
 * user who has used up a share of a row waits there.  All jobs must end, with
 * every byte in its place.
 */

#include <unistd.h>

#include "tests/support/story_rows.h"
#include "tests/support/load_file.h"
#include "tests/support/users.h"

#ifdef STAGE_CUDA
#define CONFIG "[socket]\nmode = 0666\n[host]\nrows = 1\n"
#else
#define CONFIG "[socket]\nmode = 0666\n[host]\nrows = 2\n"
#endif

#define USERS    3u
#define STRANGER 61457u /* the first uid of the users */
#define CROWD    6u     /* sessions of the first user */
#define ROUNDS   4u
#define BYTES    (5 * MIB + 3)
#define PART     (6 * MIB) /* of a row's range: loaded, copied, filled */

static struct agent agent;
static struct gpumap *map;
static int file;

struct side {
	struct gpumap_session *session;
	uint64_t file;
	uint64_t source[2]; /* in each row */
	char *here[2];
};

static bool open_side(struct side *s)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 3 * PART,
					    .flags = GPUMAP_SESSION_SPARSE };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int rc = gpumap_session_open(map, &opts, &s->session);

	if (rc == 0)
		rc = gpumap_buffer_register_file(s->session, file, 0, &s->file);
	for (uint32_t row = 0; rc == 0 && row < 2; row++) {
		struct gpumap_job job = load_job(s->file, 0, BYTES, NULL);
		void *memory = NULL;

		rc = gpumap_alloc(s->session, row, 3 * PART, &memory);
		s->here[row] = memory;
		if (rc == 0)
			rc = gpumap_buffer_alloc(s->session, row, BYTES, 0,
						 until, &s->source[row]);
		job.dst_buffer = s->source[row];
		if (rc == 0)
			rc = story_run(s->session, row, &job);
	}
	return rc == 0;
}

/* Submit a LOAD, a COPY out of the other row, and a FILL. */
static uint32_t submit(struct side *s, uint32_t row)
{
	struct gpumap_job job[3] = {
		load_job(s->file, 0, BYTES, s->here[row]),
		{ .op = GPUMAP_OP_COPY,
		  .dtype = GPUMAP_DTYPE_U8,
		  .dst = s->here[row] + PART,
		  .src_buffer = s->source[!row],
		  .n = BYTES },
		{ .op = GPUMAP_OP_FILL,
		  .dtype = GPUMAP_DTYPE_U8,
		  .dst = s->here[row] + 2 * PART,
		  .n = BYTES },
	};

	return gpumap_submit(s->session, row, job, 3) != 0;
}

/* Returns how many completions went wrong. */
static uint32_t collect(struct side *s, uint32_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t bad = 0;

	for (; n > 0 && bad == 0; n--) {
		struct gpumap_done done = { .status = 1 };

		bad += gpumap_wait(s->session, &done, 1, until) != 1 ||
		       done.status != 0;
	}
	return bad;
}

static uint32_t play(struct side *s, uint32_t n)
{
	uint32_t bad = 0;

	for (uint32_t round = 0; round < ROUNDS && bad == 0; round++) {
		for (uint32_t i = 0; i < n; i++)
			bad += submit(&s[i], 0) + submit(&s[i], 1);
		for (uint32_t i = 0; i < n && bad == 0; i++)
			bad += collect(&s[i], 6);
	}
	for (uint32_t i = 0; i < n && bad == 0; i++)
		for (uint32_t row = 0; row < 2; row++)
			bad += !load_matches(s[i].here[row], 0, BYTES) +
			       !load_matches(s[i].here[row] + PART, 0, BYTES);
	return bad;
}

static int live(uint32_t user)
{
	uint32_t n = user == 0 ? CROWD : user;
	struct side side[CROWD] = { 0 };
	uint32_t bad;

	map = story_attach(&agent);
	if (!map)
		return 3;
	for (uint32_t i = 0; i < n; i++)
		if (!open_side(&side[i]))
			return 4;
	bad = play(side, n);
	for (uint32_t i = 0; i < n; i++)
		gpumap_session_close(side[i].session);
	gpumap_detach(map);
	return bad != 0;
}

TAP_CASE()
{
	file = load_file("/tmp", BYTES);
	stage_make(&agent, CONFIG);
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	if (!OK(map != NULL))
		return tap_done();
	users_live(USERS, STRANGER, live);
	close(file);
	return stage_finish(&agent, map);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks collectives of several users on the same rows, in groups that overlap,
 * while the same users fill these rows with other jobs.  A user who has used up
 * a share of one row waits there, and the other ranks of the group wait for
 * that part.  All collectives must end.
 */

#include "tests/support/story_rows.h"
#include "tests/support/collective.h"
#include "tests/support/users.h"

#ifdef STAGE_CUDA
#define CONFIG "[socket]\nmode = 0666\n[host]\nrows = 1\n"
#else
#define CONFIG "[socket]\nmode = 0666\n[host]\nrows = 3\n"
#endif

#define USERS    3u
#define STRANGER 61357u /* the first uid of the users */
#define ROUNDS   12u
#define AT_ONCE  4u
#define BYTES    (UINT64_C(1) << 20)

static struct agent agent;
static struct gpumap *map;

static const char *const meshes[USERS] = { "ranks2", "ranks3", "ranks3" };

/* Returns how many submissions and completions went wrong. */
static uint32_t play(struct gpumap_session *session, struct ranks *g)
{
	const struct shape s = { .op = GPUMAP_OP_ALL_REDUCE,
				 .dtype = GPUMAP_DTYPE_F32,
				 .n = BYTES / 4,
				 .in_place = true };
	struct gpumap_job fill = { .op = GPUMAP_OP_FILL,
				   .dtype = GPUMAP_DTYPE_U8,
				   .n = BYTES };
	uint32_t bad = 0, n;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		n = 0;
		for (uint32_t k = 0; k < AT_ONCE; k++, n++)
			bad += collective_submit(g, &s, n) != 0;
		for (uint32_t r = 0; r < g->n; r++) {
			fill.dst = g->memory[r] + BYTES;
			fill.cookie = n++;
			bad += gpumap_submit(session, g->row[r], &fill, 1) != 0;
		}
		for (; n > 0 && bad == 0; n--) {
			struct gpumap_done done = { .status = 1 };
			uint64_t limit = story_now() + STORY_LIMIT_NS;

			bad += gpumap_wait(session, &done, 1, limit) != 1 ||
			       done.status != 0;
		}
	}
	return bad;
}

static int live(uint32_t user)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 16 << 20,
					    .flags = GPUMAP_SESSION_SPARSE };
	struct gpumap_session *session = NULL;
	struct ranks g;
	uint32_t bad;

	map = story_attach(&agent);
	if (!map || gpumap_session_open(map, &opts, &session) != 0 ||
	    !collective_open(session, meshes[user], 2 * BYTES, &g))
		return 3;
	bad = play(session, &g);
	collective_close(&g);
	gpumap_session_close(session);
	gpumap_detach(map);
	return bad != 0;
}

TAP_CASE()
{
	stage_make(&agent, CONFIG);
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	if (!OK(map != NULL))
		return tap_done();
	EQ(collective_mesh(map, "ranks2", 2), 0);
	EQ(collective_mesh(map, "ranks3", 3), 0);
	users_live(USERS, STRANGER, live);
	return stage_finish(&agent, map);
}

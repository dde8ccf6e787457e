/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Devices that are full: users take buffers on every row until there is none
 * left to have, each is told why, and when they have gone, or were killed, all
 * of it can be had again.
 *
 * The cards are small: the stand-in's memory is the machine's, and what is had
 * is cleared.
 */

#define STAGE_CUDA 1

#include "tests/support/share_sessions.h"

#define MIB     (UINT64_C(1) << 20)
#define ROWS    2u
#define PLAYERS 3u

/* Buffers of that many bytes until the row says no; its last word. */
static int take(struct gpumap_session *session, uint32_t row, uint64_t bytes,
		uint32_t flags)
{
	uint64_t buffer;
	int ret;

	do
		ret = gpumap_buffer_alloc(session, row, bytes, flags,
					  GPUMAP_NO_DEADLINE, &buffer);
	while (ret == 0);
	return ret;
}

/* A user's limit is computed when the user comes to the row. */
static int64_t come(struct gpumap_session *session, uint32_t row)
{
	uint64_t buffer;
	int ret = gpumap_buffer_alloc(session, row, MIB, 0, GPUMAP_NO_DEADLINE,
				      &buffer);

	return ret == 0 ? gpumap_buffer_free(session, buffer) : ret;
}

/* Down to the last granule. */
static int64_t part(struct gpumap_session *session, struct line *line)
{
	uint32_t row = (uint32_t)line->value;

	if (line->what == 'c')
		return come(session, row);
	take(session, row, 64 * MIB, 0);
	take(session, row, 2 * MIB, GPUMAP_BUFFER_EXPORTABLE);
	return take(session, row, MIB, 0);
}

static uint64_t left(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);

	return cuda_scene_free(&stage_scene,
			       cuda_scene_gpu(&stage_scene, &device));
}

/* The agent says the same. */
static void is_told(uint32_t row)
{
	STORY_WAIT_WHILE(story_device(map, row).free_bytes != left(row));
	EQ(story_device(map, row).free_bytes, left(row));
}

/* No user has more than half, so that it takes two. */
static void row_is_filled(const struct player p[PLAYERS],
			  struct gpumap_session *late, uint32_t row)
{
	uint64_t buffer;

	EQ(tell(&p[0], 'a', "", row), -EDQUOT);
	EQ(tell(&p[1], 'a', "", row), -ENOMEM);
	EQ(tell(&p[2], 'a', "", row), -ENOMEM);
	EQ(gpumap_buffer_alloc(late, row, 2 * MIB, 0, GPUMAP_NO_DEADLINE,
			       &buffer),
	   -ENOMEM);
	EQ(gpumap_buffer_alloc(late, row, 2 * MIB, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &buffer),
	   -ENOMEM);
	OK(left(row) < 2 * MIB);
}

static void every_row_is_filled(int signal)
{
	struct gpumap_session *late = session_open(map);
	struct player p[PLAYERS];
	uint64_t before[ROWS], until, buffer;

	for (uint32_t i = 0; i < PLAYERS; i++)
		p[i] = player_start(STRANGER + i, part);
	for (uint32_t row = 0; row < ROWS; row++) {
		/* The memory of the round before, too. */
		is_told(row);
		EQ(come(late, row), 0);
		is_told(row);
		for (uint32_t i = 0; i < PLAYERS; i++)
			EQ(tell(&p[i], 'c', "", row), 0);
		before[row] = left(row);
	}
	for (uint32_t row = 0; row < ROWS; row++)
		row_is_filled(p, late, row);
	for (uint32_t i = 0; i < PLAYERS; i++)
		player_end(&p[i], signal);
	settles(0, 0);
	for (uint32_t row = 0; row < ROWS; row++) {
		until = story_now() + STORY_LIMIT_NS;
		while (left(row) < before[row] && story_now() < until)
			story_nap(1000);
		OK(left(row) >= before[row]);
		EQ(gpumap_buffer_alloc(late, row, 256 * MIB, 0,
				       GPUMAP_NO_DEADLINE, &buffer),
		   0);
		EQ(gpumap_buffer_free(late, buffer), 0);
	}
	gpumap_session_close(late);
	settles(0, 0);
}

TAP_CASE()
{
	if (geteuid() != 0) {
		SKIP(1, "needs root, to be several users");
		return tap_done();
	}
	if (!cuda_scene_make(&stage_scene, "scarce.yaml", NULL))
		return tap_done();
	cuda_scene_agent(&stage_scene, &agent, "",
			 "[host]\nrows = 1\n[socket]\nmode = 0666\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	every_row_is_filled(0);
	every_row_is_filled(SIGKILL);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}

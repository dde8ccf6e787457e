/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent is killed at every point of publishing a mask.  The next one has
 * the mask whole, or as it was before, or not at all; and all the memory that
 * no mask has is there for the next.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "agent/mask/mask.h"
#include "tests/support/story.h"

#define MOST 16u /* spans beside the header, of 1M */

static struct agent agent;
static struct gpumap *map;
static int wrong, deaths;

static int publish(const char *name, uint64_t past, uint64_t n)
{
	static const uint32_t rows[] = { 0, 1 };
	struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = n,
		.past_kv_len = past,
		.rows = rows,
		.n_rows = 2,
	};

	return gpumap_mask_publish(map, &r, NULL);
}

/* 1: it is there with this past, 0: with another, or -errno. */
static int look(const char *name, uint64_t past)
{
	struct gpumap_mask_info info = { .size = sizeof(info) };
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask;
	struct gm_mask_spec spec;
	int ret = gpumap_mask_read(map, name, &info, NULL, 0);
	char want[64 * 128];

	if (ret == 0)
		ret = gpumap_mask_open(map, name, 0, &mask);
	if (ret != 0)
		return ret;
	spec = (struct gm_mask_spec){ .form = GM_MASK_CAUSAL,
				      .tgt_len = info.tgt_len,
				      .past_kv_len = info.past_kv_len };
	gm_mask_fill(&spec, GPUMAP_DTYPE_U8, 0, info.tgt_len, want);
	for (uint32_t row = 0; row < 2; row++)
		wrong += gpumap_mask_get(map, mask, row, &view) != 0 ||
			 memcmp(view->data, want, info.bytes) != 0;
	gpumap_mask_close(map, mask);
	return info.past_kv_len == past;
}

/* All that is left is one gap, or nearly: it can be had in one piece. */
static void take_the_rest(uint32_t in_use)
{
	uint64_t n = 4; /* rows of 64 KiB at most */
	uint64_t spans = MOST - 1 - in_use;
	int ret = publish("rest", spans * 65536 / n - n, n);

	if (ret == -ENOSPC) /* in two, around what is in use */
		ret = publish("rest", spans / 2 * 65536 / n - n, n);
	if (ret != 0)
		NOTE("%u in use: %d %s", in_use, ret, gpumap_refusal(map));
	wrong += ret != 0;
	wrong += gpumap_mask_release(map, "rest") != 0;
}

static bool is_up(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	agent_spawn(&agent, NULL);
	while (story_now() < until) {
		if (agent_logged(&agent, "event=ready "))
			return true;
		if (!story_lives(agent.pid))
			return false;
		story_nap(1000);
	}
	return false;
}

/* Without a file for its node, and so without an old one. */
static void start_anew(void)
{
	gpumap_detach(map);
	wrong += agent_run(&agent, "--remove") != 0;
	agent_forget(&agent);
	wrong += !agent_start(&agent);
	map = story_attach(&agent);
	wrong += map == NULL;
	agent_kill(&agent, SIGKILL);
}

static void die_at(const char *point, int nth)
{
	bool is_new = strcmp(point, "node_signed") == 0 ||
		      strcmp(point, "node_visible") == 0;
	int ret = -ECONNRESET, found;
	char env[96];

	if (is_new)
		start_anew();
	if (wrong != 0)
		return;
	snprintf(env, sizeof(env), "GM_POINT=%s:kill:%d", point, nth);
	agent.env[0] = env;
	if (is_up())
		ret = publish("new", (uint64_t)nth, 64);
	if (ret == 0)
		agent_kill(&agent, SIGKILL);
	else
		deaths += agent_wait(&agent) == -SIGKILL;
	agent.env[0] = NULL;
	if (!agent_start(&agent)) {
		wrong++;
		return;
	}
	if (is_new)
		wrong += publish("old", 3, 64) != 0;
	wrong += look("old", 3) != 1;
	found = look("new", (uint64_t)nth);
	/* Acknowledged: it stays.  Not: it may be there, as any may be. */
	wrong += ret == 0 && found != 1;
	wrong += found < 0 && found != -ENOENT;
	take_the_rest(found >= 0 ? 2 : 1);
	agent_kill(&agent, SIGKILL);
	if (wrong != 0)
		NOTE("wrong at %s", env);
}

static void every_point_is_survived(void)
{
	static const char *const points[] = {
		"node_signed",   "node_visible",     "node_pages",
		"node_filled",   "publish_reserved", "publish_filled",
		"publish_key",   "publish_visible",  "generation_visible",
		"state_created", "state_written",    "state_synced",
		"state_renamed", "state_lasting",
	};

	agent_kill(&agent, SIGKILL);
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		int before = deaths;

		for (int nth = 1; nth <= (i < 4 ? 1 : 6) && wrong == 0; nth++)
			die_at(points[i], nth);
		if (deaths == before)
			NOTE("nobody comes by %s", points[i]);
		OK(deaths > before);
	}
	EQ(wrong, 0);
	NOTE("%d deaths at a point", deaths);
}

/* Without points: at some moment of it. */
static void any_moment_is_survived(void)
{
	for (int round = 0; round < story_rounds() && wrong == 0; round++) {
		pid_t killer, target = agent.pid;
		int ret, found;

		killer = fork();
		if (killer == 0) {
			story_nap(story_moment(round, 3000));
			kill(target, SIGKILL);
			_exit(0);
		}
		ret = publish("new", (uint64_t)round, 64);
		waitpid(killer, NULL, 0);
		agent_wait(&agent);
		if (!OK(agent_start(&agent)))
			return;
		wrong += look("old", 3) != 1;
		found = look("new", (uint64_t)round);
		wrong += ret == 0 && found != 1;
		wrong += found < 0 && found != -ENOENT;
		take_the_rest(found >= 0 ? 2 : 1);
	}
	EQ(wrong, 0);
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 2\n[masks]\nbytes = 1M\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    EQ(publish("old", 3, 64), 0)) {
		any_moment_is_survived();
		if (tap_has_points())
			every_point_is_survived();
		else
			SKIP(1, "needs --enable-testpoints");
	}
	gpumap_detach(map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}

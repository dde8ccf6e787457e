/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Those who have a share are killed, one of each kind at a time and two at
 * once: what has a name afterwards is as support/share_sessions.h of the agent
 * has it, and in the end no name is left, no byte and no descriptor.
 */

#include "tests/support/share_sessions.h"

#define NAME "weights"

static int held; /* the agent's descriptors before the first client */

/* ---- parts ------------------------------------------------------------- */

/* Shares rows 0 and 1, filled with @line->value and one more; or opens it, and
 * says what is in there. */
static int64_t takes_part(struct gpumap_session *session, struct line *line)
{
	static uint64_t id, b[2];
	int64_t got;
	int ret = 0;

	switch (line->what) {
	case 's':
		for (uint32_t i = 0; i < 2 && ret == 0; i++)
			ret = make(session, i, (uint32_t)line->value + i,
				   &b[i]);
		return ret ? ret
			   : share(session, NAME, b, 2, GPUMAP_SHARE_READ_ONLY,
				   &id);
	case 'o':
		return gpumap_share_open(session, NAME, GPUMAP_SHARE_READ_ONLY,
					 NULL, &id);
	case 'v':
		got = value_at(session, id, 0);
		return value_at(session, id, 1) == got + 1 ? got : -EIO;
	case 'a': /* anew, after a worker's death */
		for (uint32_t i = 0; i < 2 && ret == 0; i++) {
			ret = gpumap_share_buffer(session, id, i, NULL, &b[i]);
			if (ret == 0)
				ret = gpumap_buffer_free(session, b[i]);
		}
		return ret;
	case 'c':
		return gpumap_share_close(session, id);
	default: /* for ever, until it is killed */
		for (;;) {
			takes_part(session, &(struct line){ .what = 's' });
			takes_part(session, &(struct line){ .what = 'o' });
			takes_part(session, &(struct line){ .what = 'v' });
			gpumap_share_close(session, id);
			gpumap_buffer_free(session, b[0]);
			gpumap_buffer_free(session, b[1]);
		}
	}
}

static struct player new_part(void)
{
	return player_start(0, takes_part);
}

/* No client has left anything: no name, no bytes, no descriptor. */
static void all_is_back(void)
{
	settles(0, 0);
	OK(story_gives_back(agent.pid, held));
}

/* If no client needs the next worker, there is none. */
static void kill_worker(uint32_t row)
{
	struct gpumap_device before = story_device(map, row), now;
	uint64_t until = story_now() + STORY_LIMIT_NS;

	kill((pid_t)before.worker_pid, SIGKILL);
	do {
		story_nap(200);
		now = story_device(map, row);
	} while ((now.state != GPUMAP_DEVICE_READY ||
		  now.worker_pid == before.worker_pid) &&
		 story_now() < until);
	OK(now.state == GPUMAP_DEVICE_READY);
}

/* ---- one at a time ----------------------------------------------------- */

/* The client that shared it first, then the one that opened it; or the
 * reverse. */
static void who_shares_and_who_opens(bool sharer_first)
{
	struct story_times times = { 0 };

	for (int round = 0; round < story_rounds(); round++) {
		struct player one = new_part(), two = new_part();
		struct player three = new_part();
		uint64_t began;

		EQ(tell(&one, 's', "", 10 * round), 0);
		EQ(tell(&two, 'o', "", 0), 0);
		EQ(tell(&two, 'v', "", 0), 10 * round);
		player_end(sharer_first ? &one : &two, SIGKILL);
		for (int i = 0; i < STORY_LOOKS && shared(NAME).n_holders != 1;
		     i++)
			story_nap(1000);
		EQ(shared(NAME).n_holders, 1);
		/* A client that comes now finds all of it, and gets it. */
		EQ(tell(&three, 'o', "", 0), 0);
		EQ(tell(&three, 'v', "", 0), 10 * round);
		EQ(charged(), 2 * BYTES);
		player_end(sharer_first ? &two : &one, SIGKILL);
		EQ(tell(&three, 'v', "", 0), 10 * round);
		began = story_now();
		player_end(&three, SIGKILL);
		settles(0, 0);
		story_time(&times, began);
	}
	story_tell(&times, "name and bytes back after the last one's death");
	all_is_back();
}

static void all_at_once(void)
{
	for (int round = 0; round < story_rounds(); round++) {
		struct player one = new_part(), two = new_part();

		EQ(tell(&one, 's', "", 1), 0);
		tell_only(&two, 'o', "", 0);
		story_nap(story_moment(round, 3000));
		kill(one.pid, SIGKILL);
		kill(two.pid, SIGKILL);
		player_end(&one, SIGKILL);
		player_end(&two, SIGKILL);
		settles(0, 0);
	}
	all_is_back();
}

/* At any instant of sharing, opening, importing and closing. */
static void in_the_middle_of_it(void)
{
	struct player parts[2];

	for (int round = 0; round < story_rounds(); round++) {
		for (int i = 0; i < 2; i++) {
			parts[i] = new_part();
			tell_only(&parts[i], 'f', "", 0);
		}
		story_nap(10000 + story_moment(round, 40000));
		player_end(&parts[round % 2], SIGKILL);
		story_nap(story_moment(round + 7, 10000));
		player_end(&parts[1 - round % 2], SIGKILL);
		settles(0, 0);
	}
	all_is_back();
}

/* ---- workers ----------------------------------------------------------- */

static void what_is_kept_outlives_the_worker(void)
{
	for (int round = 0; round < story_rounds(); round++) {
		struct player one = new_part(), two = new_part();

		EQ(tell(&one, 's', "", 10 * round), 0);
		EQ(tell(&two, 'o', "", 0), 0);
		EQ(tell(&two, 'v', "", 0), 10 * round);
		if (round % 2) /* who shared it is gone before, or stays */
			player_end(&one, SIGKILL);
		kill_worker(0);
		EQ(shares_n(), 1);
		EQ(tell(&two, 'v', "", 0), -EIO); /* stale */
		EQ(tell(&two, 'a', "", 0), 0);
		EQ(tell(&two, 'v', "", 0), 10 * round);
		player_end(&two, SIGKILL);
		player_end(&one, SIGKILL);
		settles(0, 0);
	}
	all_is_back();
}

#ifdef STAGE_CUDA
/* The agent holds the memory's descriptor, too: no worker has confirmed it on a
 * card yet. */
static void what_is_not_kept_ends_with_the_worker(void)
{
	uint64_t before = cuda_scene_free(&stage_scene, 0);

	for (int round = 0; round < story_rounds(); round++) {
		struct player one = new_part(), two = new_part();

		EQ(tell(&one, 's', "", 1), 0);
		EQ(tell(&two, 'o', "", 0), 0);
		if (round % 2)
			player_end(&one, SIGKILL);
		kill_worker(0);
		EQ(shares_n(), 0);
		EQ(tell(&two, 'c', "", 0), 0);
		EQ(tell(&two, 'o', "", 0), -ENOENT);
		/* The name can be had again. */
		EQ(tell(&two, 's', "", 5), 0);
		player_end(&one, SIGKILL);
		player_end(&two, SIGKILL);
		settles(0, 0);
	}
	all_is_back();
	NOTE("free before %llu, after %llu", (unsigned long long)before,
	     (unsigned long long)cuda_scene_free(&stage_scene, 0));
}
#endif

/* Whatever is kept: a row that leaves service takes its memory along. */
static void a_drained_row_keeps_nothing(void)
{
	struct player one = new_part(), two = new_part();

	EQ(tell(&one, 's', "", 1), 0);
	EQ(tell(&two, 'o', "", 0), 0);
	player_end(&one, SIGKILL);
	EQ(gpumap_device_drain(map, 0), 0);
	EQ(shares_n(), 0);
	EQ(tell(&two, 'o', "", 0), -ENOENT);
	EQ(gpumap_device_undrain(map, 0), 0);
	for (int i = 0; i < STORY_LOOKS &&
			story_device(map, 0).state != GPUMAP_DEVICE_READY;
	     i++)
		story_nap(1000);
	player_end(&two, SIGKILL);
	one = new_part();
	EQ(tell(&one, 's', "", 3), 0);
	EQ(tell(&one, 'v', "", 0), 3);
	player_end(&one, 0);
	all_is_back();
}

/* ---- the agent --------------------------------------------------------- */

static void the_agent(void)
{
	struct player one = new_part(), two = new_part(), three;

	EQ(tell(&one, 's', "", 1), 0);
	EQ(tell(&two, 'o', "", 0), 0);
	agent_kill(&agent, SIGKILL);
	if (!OK(agent_start(&agent)))
		return;
	EQ(tell(&two, 'v', "", 0), -EIO);
	EQ(tell(&two, 'c', "", 0), -ECONNRESET);
	player_end(&one, SIGKILL);
	player_end(&two, SIGKILL);
	EQ(shares_n(), 0);
	three = new_part();
	EQ(tell(&three, 'o', "", 0), -ENOENT);
	EQ(tell(&three, 's', "", 4), 0);
	player_end(&three, SIGKILL);
	settles(0, 0);
}

TAP_CASE()
{
	static const char config[] = "[host]\nrows = 2\n"
				     "[limits]\nsessions-per-second = 1000\n";

	shares_stage("", config);
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	settles(0, 0);
	/* The client keeps memory of rows that it has used once. */
	struct player first = new_part();

	EQ(tell(&first, 's', "", 1), 0);
	player_end(&first, 0);
	settles(0, 0);
	held = story_holds_at_rest(agent.pid);
	who_shares_and_who_opens(true);
	who_shares_and_who_opens(false);
	all_at_once();
	in_the_middle_of_it();
#ifdef STAGE_CUDA
	what_is_not_kept_ends_with_the_worker();
	a_drained_row_keeps_nothing();
	EQ(agent_kill(&agent, SIGTERM), 0);
	shares_stage("keep-shares = yes\n", config);
	if (!OK(agent_start(&agent)))
		return tap_done();
	first = new_part();
	EQ(tell(&first, 's', "", 1), 0);
	player_end(&first, 0);
	settles(0, 0);
	held = story_holds_at_rest(agent.pid);
#endif
	what_is_kept_outlives_the_worker();
	a_drained_row_keeps_nothing();
	the_agent();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}

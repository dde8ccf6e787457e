/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A client that connects after another one has left gets the place of that one,
 * in whatever order the agent meets the two.
 */

#include "tests/support/raw.h"
#include "tests/support/story.h"

#define MOST    400u /* connections-per-uid: their ends take many turns */
#define REFUSED 16u  /* that the agent keeps to tell them why */

static struct agent agent;
static char path[160];

static void open_some(struct raw *c, uint32_t n)
{
	uint32_t n_open = 0;

	for (uint32_t i = 0; i < n; i++)
		n_open += raw_open(&c[i], path) == 0;
	EQ(n_open, n);
}

/* epoll reports first the descriptors that it reports a second time: here the
 * listening socket, which another client made ready before @left hung up. */
static void comes_after(struct raw *left, uint32_t n_left)
{
	struct raw first, second;

	OK(process_stop(agent.pid));
	raw_init(&first);
	raw_init(&second);
	EQ(raw_connect(&first, path), 0);
	for (uint32_t i = 0; i < n_left; i++)
		raw_close(&left[i]);
	EQ(raw_connect(&second, path), 0);
	EQ(kill(agent.pid, SIGCONT), 0);
	EQ(raw_hello(&second), 0);
	if (second.refusal[0] != '\0')
		NOTE("%s", second.refusal);
	raw_close(&second);
	raw_close(&first);
}

static void one_place_is_given_on(int at_rest)
{
	struct raw c[MOST];

	open_some(c, MOST - 1);
	comes_after(c, 1);
	for (uint32_t i = 1; i < MOST - 1; i++)
		raw_close(&c[i]);
	OK(story_gives_back(agent.pid, at_rest));
}

/* Refused connections do not make the agent turn others away unheard. */
static void the_door_is_not_blocked(int at_rest)
{
	struct raw c[MOST + REFUSED];

	open_some(c, MOST);
	for (uint32_t i = 0; i < REFUSED; i++)
		EQ(raw_connect(&c[MOST + i], path), 0);
	STORY_WAIT_WHILE(story_holds(agent.pid, NULL) <
			 at_rest + (int)(MOST + REFUSED));
	comes_after(c, MOST + REFUSED);
	OK(story_gives_back(agent.pid, at_rest));
}

TAP_CASE()
{
	int at_rest;

	agent_make(&agent, "[host]\nrows = 1\n[limits]\n"
			   "connections-per-uid = 400\nhello-timeout = 60s\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent))) {
		at_rest = story_holds_at_rest(agent.pid);
		for (int i = 0; i < 5; i++)
			one_place_is_given_on(at_rest);
		for (int i = 0; i < 5; i++)
			the_door_is_not_blocked(at_rest);
	}
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	return tap_done();
}

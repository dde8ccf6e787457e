/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks a client that asks for descriptors and takes none.  The kernel counts
 * descriptors in sockets on the agent's account, and at its limit the agent can
 * send none to any client.  So a client gets its next descriptor only after it
 * has taken the one before.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/raw.h"
#include "tests/support/story.h"

#define ASKED 64
#define TURNS 64 /* of the agent's loop, at least: enough for all of them */

static struct agent agent;
static char path[160];

static int ask(struct raw *c)
{
	struct raw_record record = {
		.header = raw_header(c, GM_CONTROL_MAP, 0, 0),
	};

	return raw_send(c, &record, 0);
}

/* Returns how many descriptors lie in the socket, or -1 where the kernel does
 * not report that. */
static int unread(const struct raw *c)
{
	char name[48], line[128];
	FILE *info;
	int n = -1;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", c->socket);
	info = fopen(name, "r");
	while (info != NULL && fgets(line, sizeof(line), info) != NULL)
		if (strncmp(line, "scm_fds:", 8) == 0)
			n = atoi(line + 8);
	if (info != NULL)
		fclose(info);
	return n;
}

static bool gets_one(struct raw *c)
{
	int fds[GM_CONTROL_FDS_MAX];

	if (raw_ask(c, GM_CONTROL_MAP, NULL, 0, NULL, 0, fds) != 0)
		return false;
	close(fds[0]);
	return true;
}

static void others_have_turns(void)
{
	struct raw other;
	int n = 0;

	if (EQ(raw_open(&other, path), 0))
		while (n < TURNS && gets_one(&other))
			n++;
	EQ(n, TURNS);
	raw_close(&other);
}

/* The replies arrive one after the other, and none is lost. */
static void all_come(struct raw *c)
{
	int fds[GM_CONTROL_FDS_MAX], n = 0;
	struct gm_control header;
	uint32_t serial = 0;

	while (n < ASKED && raw_receive(c, &header, NULL, 0, fds) >= 0) {
		if (header.status != 0 || fds[0] < 0 ||
		    (n > 0 && header.serial != serial + 1))
			break;
		serial = header.serial;
		close(fds[0]);
		n++;
	}
	EQ(n, ASKED);
	EQ(unread(c), 0);
}

static void one_at_a_time(void)
{
	struct raw c;
	int wrong = 0;

	if (!EQ(raw_open(&c, path), 0))
		return;
	if (unread(&c) < 0) {
		SKIP(1, "the kernel does not say what lies in a socket");
		raw_close(&c);
		return;
	}
	for (int i = 0; i < ASKED; i++)
		wrong += ask(&c) != 0;
	EQ(wrong, 0);
	others_have_turns();
	EQ(unread(&c), 1);
	all_come(&c);
	raw_close(&c);
}

/* A client that leaves without having taken any leaves no descriptor behind. */
static void one_leaves(void)
{
	int held = story_holds_at_rest(agent.pid), wrong = 0;
	struct raw c;

	if (!EQ(raw_open(&c, path), 0))
		return;
	for (int i = 0; i < ASKED; i++)
		wrong += ask(&c) != 0;
	EQ(wrong, 0);
	raw_close(&c);
	others_have_turns();
	EQ(story_holds_at_rest(agent.pid), held);
}

static bool there_is_one(void)
{
	struct raw c;
	bool is_there = EQ(raw_open(&c, path), 0) && gets_one(&c);

	NOTE("%s", c.refusal);
	raw_close(&c);
	return is_there;
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 1\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent))) {
		if (there_is_one()) {
			one_at_a_time();
			one_leaves();
		} else {
			SKIP(1, "no read-only mount can be made here");
		}
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks descriptors that come from peers before HELLO, on a kernel that lets
 * them in.  Kernels before 6.16 let them in; on a later one the test makes
 * setsockopt() fail as if the option did not exist.
 */

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/raw.h"
#include "tests/support/slow_close.h"
#include "tests/support/story.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define EACH 5 /* of a kind; a user has at most 8 such threads */

static struct agent agent;
static char path[160];

/* SO_PASSRIGHTS does not exist for this process, and so for the agent. */
static bool age_the_kernel(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int off = 0;
	int fd;

	if (!filter ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOPROTOOPT),
			     SCMP_SYS(setsockopt), 1,
			     SCMP_A2(SCMP_CMP_EQ, SO_PASSRIGHTS, 0)) != 0 ||
	    seccomp_load(filter) != 0)
		return false;
	seccomp_release(filter);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	EQ(setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)), -1);
	close(fd);
	return true;
}

/* Send a record of an unknown type without a descriptor, or HELLO with one. */
static int send_one(struct raw *c, const int *fd)
{
	struct raw_record record = {
		.header = raw_header(c, fd ? GM_CONTROL_HELLO : 0x7fff, 0, 0),
		.fds = fd,
		.n_fds = fd != NULL,
	};

	return raw_send(c, &record, 0);
}

/*
 * Send a descriptor whose last close blocks, in one of three ways: in the first
 * record; in a record behind one that ends the connection; from a peer that has
 * closed its end.  The agent is stopped meanwhile, so that the last close is
 * the agent's.
 */
static bool send_lingering(struct raw *c, int kind, int *ret_other)
{
	int fd = lingering(ret_other);
	bool sent;

	raw_init(c);
	sent = process_stop(agent.pid) && *ret_other >= 0 &&
	       raw_connect(c, path) == 0 &&
	       (kind != 1 || send_one(c, NULL) == 0) && send_one(c, &fd) == 0;
	if (!sent)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 0 },
			   sizeof(struct linger));
	close(fd);
	if (kind == 2)
		raw_close(c);
	kill(agent.pid, SIGCONT);
	return sent;
}

static bool others_are_served(void)
{
	struct raw good;
	bool served = raw_open(&good, path) == 0;

	raw_close(&good);
	return served;
}

static void what_strangers_send_holds_up_nobody(int kind)
{
	int others[EACH], sent = 0;
	struct raw c[EACH];

	while (sent < EACH && send_lingering(&c[sent], kind, &others[sent]))
		sent++;
	if (sent < EACH) {
		SKIP(1, "no socket lingers here");
		raw_close(&c[sent]);
		close(others[sent]);
	}
	OK(others_are_served());
	for (int i = 0; i < sent; i++) {
		if (kind != 2)
			OK(raw_wait_over(&c[i]));
		raw_close(&c[i]);
	}
	OK(others_are_served());
	/* Closing these resets the connections, for there is something unread,
	 * and ends the agent's blocked closes. */
	while (sent > 0)
		close(others[--sent]);
}

TAP_CASE()
{
	int held;

	agent_make(&agent, "[host]\nrows = 1\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (!age_the_kernel()) {
		SKIP(1, "no filter of system calls can be had");
		agent_remove(&agent);
		return tap_done();
	}
	if (OK(agent_start(&agent))) {
		held = story_holds_at_rest(agent.pid);
		for (int kind = 0; kind < 3; kind++)
			what_strangers_send_holds_up_nobody(kind);
		OK(story_gives_back(agent.pid, held));
	}
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}

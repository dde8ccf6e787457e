/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * card_user - a process that has memory of a stand-in card, as an engine has
 * that allocates for itself, at the end of a line of processes.
 */
#ifndef GM_TEST_SUPPORT_CARD_USER_H
#define GM_TEST_SUPPORT_CARD_USER_H

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/hardware.h"
#include "tests/support/tap.h"

struct card_user {
	pid_t first; /* our child */
	pid_t last;  /* the one that has the memory */
	int to, from;
};

#define CARD_USER_END UINT64_MAX

/* Has what it is told to have, until it is told to end: users that were started
 * later have the other end of the pipe, too. */
static inline void card_user_serve(uint32_t gpu, int commands, int answers)
{
	struct fake_hardware hw;
	uint64_t has = 0, want;
	pid_t self = getpid();
	char done;

	if (fake_hardware_join(false, &hw) != 0)
		_exit(1);
	fake_lock(&hw);
	hw.self->holds |= UINT32_C(1) << gpu;
	fake_unlock(&hw);
	if (write(answers, &self, sizeof(self)) != sizeof(self))
		_exit(1);
	while (read(commands, &want, sizeof(want)) == sizeof(want) &&
	       want != CARD_USER_END) {
		fake_lock(&hw);
		fake_refund(&hw, gpu, has);
		has = fake_charge(&hw, gpu, want) ? want : 0;
		fake_unlock(&hw);
		done = has == want;
		if (write(answers, &done, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static inline bool card_user_hear(struct card_user *u, void *data, size_t n)
{
	return OK(read(u->from, data, n) == (ssize_t)n);
}

/*
 * card_user_start_as - start it, with no memory yet
 *
 * hardware	path of the machine's file
 * gpu		the place of the card in the machine's file
 * depth	processes: 1 for our child alone
 * begin	what our child does before all else; or NULL
 */
static inline bool card_user_start_as(struct card_user *u, const char *hardware,
				      uint32_t gpu, int depth,
				      void (*begin)(void))
{
	int commands[2], answers[2];

	if (!OK(pipe(commands) == 0 && pipe(answers) == 0))
		return false;
	fflush(stdout);
	u->first = fork();
	if (u->first == 0) {
		close(commands[1]);
		close(answers[0]);
		setenv("GPUMAP_FAKE_HARDWARE", hardware, 1);
		if (begin != NULL)
			begin();
		while (--depth > 0) {
			pid_t child = fork();

			if (child == 0)
				continue;
			waitpid(child, NULL, 0);
			_exit(0);
		}
		card_user_serve(gpu, commands[0], answers[1]);
	}
	close(commands[0]);
	close(answers[1]);
	u->to = commands[1];
	u->from = answers[0];
	return OK(u->first > 0) && card_user_hear(u, &u->last, sizeof(u->last));
}

static inline bool card_user_start(struct card_user *u, const char *hardware,
				   uint32_t gpu, int depth)
{
	return card_user_start_as(u, hardware, gpu, depth, NULL);
}

/* Have so much from now on. */
static inline bool card_user_has(struct card_user *u, uint64_t bytes)
{
	char done = 0;

	return OK(write(u->to, &bytes, sizeof(bytes)) == sizeof(bytes)) &&
	       card_user_hear(u, &done, 1) && OK(done);
}

/* End all of the line. */
static inline void card_user_end(struct card_user *u)
{
	const uint64_t end = CARD_USER_END;

	EQ(write(u->to, &end, sizeof(end)), (ssize_t)sizeof(end));
	close(u->to);
	close(u->from);
	waitpid(u->first, NULL, 0);
}

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/fake/linger.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool is_stop(int sig)
{
	return sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN ||
	       sig == SIGTTOU;
}

static void rest(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000),
			       .tv_nsec = (long)(ns % 1000000000) };

	while (nanosleep(&ts, &ts))
		;
}

/* Let it do what it would without us, but exit. */
static void watch(pid_t pid, uint64_t ns)
{
	int status;

	while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
		int sig = WSTOPSIG(status), event = status >> 16;

		if (event == PTRACE_EVENT_EXIT)
			rest(ns);
		if (event == PTRACE_EVENT_STOP && is_stop(sig))
			ptrace(PTRACE_LISTEN, pid, NULL, NULL);
		else
			ptrace(PTRACE_CONT, pid, NULL,
			       event ? NULL : (void *)(intptr_t)sig);
	}
}

/* A grandchild watches, so that the process has no child that it knows not. */
int fake_linger(pid_t pid, uint64_t ns)
{
	char is_there = 0;
	int pipes[2];

	if (pipe(pipes))
		return 1;
	if (fork() == 0) {
		close(pipes[0]);
		setsid();
		if (ptrace(PTRACE_SEIZE, pid, NULL,
			   (void *)(intptr_t)PTRACE_O_TRACEEXIT) ||
		    write(pipes[1], "y", 1) != 1)
			_exit(1);
		/* A reader of our output must not wait for us. */
		for (int fd = 0; fd < 64; fd++)
			close(fd);
		watch(pid, ns);
		_exit(0);
	}
	close(pipes[1]);
	return read(pipes[0], &is_there, 1) != 1;
}

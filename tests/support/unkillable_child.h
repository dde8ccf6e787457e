/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* unkillable_child - a child that SIGKILL does not end: a tracer holds it. */
#ifndef GM_TEST_SUPPORT_UNKILLABLE_CHILD_H
#define GM_TEST_SUPPORT_UNKILLABLE_CHILD_H

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Hold what ends on its way out, until the returned pipe is closed.  Returns
 * -1 where that cannot be. */
static inline int hold(pid_t pid, pid_t *ret_tracer)
{
	int pipes[2][2], status;
	char word = 0;

	if (pipe(pipes[0]) != 0 || pipe(pipes[1]) != 0)
		return -1;
	*ret_tracer = fork();
	if (*ret_tracer == 0) {
		close(pipes[1][1]);
		word = ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT) == 0;
		if (write(pipes[0][1], &word, 1) != 1)
			_exit(1);
		while (read(pipes[1][0], &word, 1) > 0)
			;
		if (waitpid(pid, &status, __WALL) == pid)
			ptrace(PTRACE_DETACH, pid, NULL, NULL);
		_exit(0);
	}
	close(pipes[0][1]);
	close(pipes[1][0]);
	if (read(pipes[0][0], &word, 1) != 1)
		word = 0;
	close(pipes[0][0]);
	if (word)
		return pipes[1][1];
	close(pipes[1][1]);
	waitpid(*ret_tracer, NULL, 0);
	return -1;
}

#endif

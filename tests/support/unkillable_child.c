/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/unkillable_child.h"

int hold(pid_t pid, pid_t *ret_tracer)
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

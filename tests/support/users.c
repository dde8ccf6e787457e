/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/users.h"

#define USERS_MAX 8u

bool user_become(uid_t uid, gid_t gid)
{
	return setgroups(0, NULL) == 0 && setresgid(gid, gid, gid) == 0 &&
	       setresuid(uid, uid, uid) == 0;
}

int user_run(uid_t uid, int (*act)(void))
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(uid != 0 && !user_become(uid, uid) ? 99 : act());
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

void users_live(uint32_t n, uid_t first, int (*live)(uint32_t user))
{
	pid_t pid[USERS_MAX];

	for (uint32_t i = 0; i < n; i++) {
		fflush(NULL);
		pid[i] = fork();
		if (pid[i] != 0)
			continue;
		if (!freopen("/dev/null", "w", stdout) ||
		    (getuid() == 0 && !user_become(first + i, first + i)))
			_exit(99);
		_exit(live(i));
	}
	for (uint32_t i = 0; i < n; i++) {
		int status = -1;

		EQ(waitpid(pid[i], &status, 0), pid[i]);
		EQ(status, 0);
	}
}

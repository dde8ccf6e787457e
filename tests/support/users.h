/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * users - a test, or its children, as other users.
 */
#ifndef GM_TEST_SUPPORT_USERS_H
#define GM_TEST_SUPPORT_USERS_H

#include <grp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tap.h"

#define USERS_MAX 8u

/* Change from root to a user that is in this group and no other.  For good. */
static inline bool user_become(uid_t uid, gid_t gid)
{
	return setgroups(0, NULL) == 0 && setresgid(gid, gid, gid) == 0 &&
	       setresuid(uid, uid, uid) == 0;
}

/*
 * Run so many users at once, from uid @first on; or all of them as the present
 * user, if that is not root.  The result of @live is its exit status, and a
 * failure of the test unless it is 0; its output is lost.
 */
static inline void users_live(uint32_t n, uid_t first,
			      int (*live)(uint32_t user))
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

#endif

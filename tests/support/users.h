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

/* Change from root to a user that is in this group and no other.  For good. */
bool user_become(uid_t uid, gid_t gid);

/*
 * Run @act in a child, as user @uid in the group of that number; uid 0 is the
 * present user.  Returns the child's exit status, 99 where it cannot become the
 * user, -1 where a signal has ended it.
 */
int user_run(uid_t uid, int (*act)(void));

/*
 * Run so many users at once, from uid @first on; or all of them as the present
 * user, if that is not root.  The result of @live is its exit status, and a
 * failure of the test unless it is 0; its output is lost.
 */
void users_live(uint32_t n, uid_t first, int (*live)(uint32_t user));

#endif

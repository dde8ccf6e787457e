/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * confine - give up what a worker needs for its set-up only.
 *
 * A worker computes on bytes that anybody may have written.  Whoever took it
 * over would find no privilege, no way to gain one, and no system call that
 * opens, executes, connects or looks at another process; nor does its io_uring
 * do so for it (gm_uring_open()).
 */
#ifndef GM_CONFINE_H
#define GM_CONFINE_H

#include <sys/types.h>

/*
 * gm_confine_user - become @uid and @gid, with no other group
 *
 * Nothing happens in a process that is not root.
 *
 * Returns	0 or -errno
 */
int gm_confine_user(uid_t uid, gid_t gid);

/*
 * gm_confine_self - no new privileges, no core dump, an allow-list of calls
 *
 * Threads that run already are confined too; new ones cannot be started.
 * Builds with a sanitizer or for coverage keep their system calls, which the
 * runtime needs.
 *
 * Returns	0 or -errno; ret_step is the step that failed then
 */
int gm_confine_self(const char **ret_step);

#endif

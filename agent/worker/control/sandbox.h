/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sandbox - give up what a worker needs for its set-up only.
 *
 * A worker computes on bytes that anybody may have written.  Whoever took it
 * over would find no privilege, no way to gain one, and no system call that
 * opens, executes, connects or looks at another process; nor does its io_uring
 * do so for it (gm_uring_open()).  Beside a vendor's driver, which opens what
 * it likes, it is less: nothing that executes, connects, looks at another
 * process, changes who we are, has namespaces of its own, or changes what the
 * kernel runs.
 */
#ifndef GM_WORKER_CONTROL_SANDBOX_H
#define GM_WORKER_CONTROL_SANDBOX_H

#include <sys/types.h>

/*
 * gm_confine_user - become @uid and @gid, with no other group
 *
 * Nothing happens in a process that is not root.
 *
 * Returns	0 or -errno
 */
int gm_confine_user(uid_t uid, gid_t gid);

/* Which system calls are left. */
enum gm_confine_how {
	GM_CONFINE_TO_LIST,  /* those that the worker is known to make */
	GM_CONFINE_PROGRAMS, /* those, less what could reach another process,
			      * and more to bring a program in: of openat() the
			      * handler of programs/program.c decides */
	GM_CONFINE_MEETING,  /* as the last, less what it takes to meet other
			      * workers by sockets, as NCCL does */
	GM_CONFINE_BUT_LIST  /* all but those that no worker has to make: a
			      * vendor's driver makes others than we can know */
};

/*
 * gm_confine_self - no new privileges, no core dump, a filter of system calls
 *
 * Threads that run already are confined too.  Under a list of what is allowed
 * new ones cannot be started, and any other call ends the process; under a list
 * of what is denied those fail with -EPERM.  Builds with a sanitizer or for
 * coverage keep their system calls, which the runtime needs.
 *
 * Returns	0 or -errno; ret_step is the step that failed then
 */
int gm_confine_self(enum gm_confine_how how, const char **ret_step);

#endif

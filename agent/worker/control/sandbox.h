/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sandbox - gives up the rights that a worker needs for its set-up only.
 *
 * A worker computes on bytes that any client may have written.  An attacker
 * that controls it has no privilege, no way to gain one, and no system call
 * that opens, executes, connects or inspects another process; nor does the
 * worker's io_uring allow that (gm_uring_open()).  A vendor's driver opens
 * files as it likes, so with it less is denied: execution, connections,
 * inspection of other processes, change of credentials, new namespaces, and
 * changes to the kernel.
 */
#ifndef GM_WORKER_CONTROL_SANDBOX_H
#define GM_WORKER_CONTROL_SANDBOX_H

#include <sys/types.h>

/*
 * gm_sandbox_user - become @uid and @gid, with no other group
 *
 * Has no effect in a process that is not root.
 *
 * Returns	0 or -errno
 */
int gm_sandbox_user(uid_t uid, gid_t gid);

/*
 * gm_sandbox_files - change no file any more, but below /dev and in a folder
 *
 * Neither its bytes nor its name, mode, owner, attributes or times: by Landlock
 * and a filter, for this thread and those that it starts.  A client's program
 * on a card that reaches all memory of its process becomes that process, whose
 * user has the compiled code that other workers load.  Open descriptors stay as
 * they are.
 *
 * folder	NULL: /dev alone
 *
 * Returns	0 or -errno
 *		-ENOSYS, -EOPNOTSUPP	this kernel has no Landlock, or, with a
 *					folder, none that lets files be moved in
 *					it (Linux 5.19)
 *		-EPERM			a filter of system calls forbids it
 */
int gm_sandbox_files(const char *folder);

/*
 * gm_sandbox_reads - read and execute no file any more but the system's
 *
 * By Landlock, for this thread and those that it starts: left are the folders
 * of programs and libraries, those of LD_LIBRARY_PATH and of @library, /proc,
 * /sys, /dev, what a loader has below /etc, @folder, which is written as well,
 * and @other unless it is NULL.
 *
 * Returns	as gm_sandbox_files()
 */
int gm_sandbox_reads(const char *library, const char *folder,
		     const char *other);

/* The system calls that stay allowed. */
enum gm_confine_how {
	/* The calls that the worker is known to make. */
	GM_CONFINE_TO_LIST,
	/* The same without those that reach another process, and with those
	 * that load a program.  The handler of programs/program.c decides about
	 * openat(). */
	GM_CONFINE_PROGRAMS,
	/* As GM_CONFINE_BUT_LIST, but sockets that connect to other workers are
	 * allowed, as NCCL needs. */
	GM_CONFINE_MEETING,
	/* As GM_CONFINE_BUT_LIST, but programs can be started, as a compiler
	 * starts a linker. */
	GM_CONFINE_BUILD,
	/* All calls except those that no worker needs.  A vendor's driver makes
	 * calls that cannot be listed in advance. */
	GM_CONFINE_BUT_LIST,
	/* As GM_CONFINE_BUT_LIST, but no process can be started, because a
	 * client's code may run in this one, and a child would outlive it. */
	GM_CONFINE_ALONE
};

/*
 * gm_sandbox_self - forbid new privileges and core dumps, filter system calls
 *
 * Threads that run already are confined too.  With a list of allowed calls no
 * thread can be started any more, and any other call ends the process.  With a
 * list of denied calls those fail with -EPERM.  Builds with a sanitizer or for
 * coverage keep their system calls, which the runtime needs.
 *
 * Returns	0 or -errno; ret_step is the step that failed then
 */
int gm_sandbox_self(enum gm_confine_how how, const char **ret_step);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * process - what the kernel says of a process that may not be our child, and
 * how one is made to stand still.
 */
#ifndef GM_TEST_SUPPORT_PROCESS_H
#define GM_TEST_SUPPORT_PROCESS_H

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

/* The state of its first thread: 'T' stopped, 'Z' dead, 'X' gone. */
char process_state(pid_t pid);

/*
 * Wait until a SIGSTOP has come to every thread.  A signal is only
 * under way when kill(2) returns: what runs on another CPU does some more.
 * Returns whether all stand.
 */
bool process_stopped(pid_t pid);

/*
 * Stop a process and wait until it stands.  Returns whether it does.
 *
 * A stopped process may go on at the death of its parent: the kernel sends
 * SIGCONT to a process group that is orphaned by that.  A test that is its
 * heir, by PR_SET_CHILD_SUBREAPER, prevents it.
 */
bool process_stop(pid_t pid);

#endif

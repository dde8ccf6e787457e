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
int hold(pid_t pid, pid_t *ret_tracer);

#endif

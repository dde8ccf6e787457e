/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/uring.h"

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/common/read_file.h"

#define DISABLED "/proc/sys/kernel/io_uring_disabled"

/* 0 also where the kernel is older than the setting. */
static int disabled(void)
{
	char text[32];

	if (gm_read_file(DISABLED, text, sizeof(text)) <= 0)
		return 0;
	return atoi(text);
}

static void explain(int error, char *ret_why)
{
	struct rlimit limit = { 0 };
	int setting = disabled();

	if (error == -ENOMEM) {
		getrlimit(RLIMIT_MEMLOCK, &limit);
		snprintf(ret_why, GM_WHY_BYTES,
			 "RLIMIT_MEMLOCK is %llu bytes: raise it (ulimit -l, "
			 "LimitMEMLOCK=, docker --ulimit memlock=-1)",
			 (unsigned long long)limit.rlim_cur);
	} else if (error == -EPERM && setting >= 2) {
		snprintf(ret_why, GM_WHY_BYTES,
			 "kernel.io_uring_disabled is %d: sysctl -w "
			 "kernel.io_uring_disabled=0",
			 setting);
	} else if (error == -EPERM && setting == 1) {
		snprintf(ret_why, GM_WHY_BYTES,
			 "kernel.io_uring_disabled is 1: run as a member of "
			 "kernel.io_uring_group, or sysctl -w "
			 "kernel.io_uring_disabled=0");
	} else if (error == -EPERM || error == -ENOSYS) {
		snprintf(ret_why, GM_WHY_BYTES,
			 "%s: use a seccomp profile that allows "
			 "io_uring_setup, io_uring_enter and io_uring_register "
			 "(docker --security-opt seccomp=FILE)",
			 error == -EPERM ? "a seccomp filter refuses it"
					 : "the kernel has none, or a seccomp "
					   "filter hides it");
	} else {
		snprintf(ret_why, GM_WHY_BYTES, "%s", strerror(-error));
	}
}

int gm_uring_check(char ret_why[GM_WHY_BYTES])
{
	struct io_uring ring;
	int ret = io_uring_queue_init(4, &ring, 0);

	if (ret != 0) {
		explain(ret, ret_why);
		return ret;
	}
	io_uring_queue_exit(&ring);
	return 0;
}

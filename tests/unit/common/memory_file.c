/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Memory files where the kernel refuses those that may be programs. */

#include "agent/common/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tap.h"

#define NO_SETTING 77

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

static void seals_can_be_added(void)
{
	int fd = gm_memory_file("gpumap-test");
	struct stat stat;

	if (!OK(fd >= 0))
		return;
	EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	EQ(fstat(fd, &stat), 0);
	EQ(stat.st_size, 0);
	EQ(ftruncate(fd, 4096), 0);
	EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	EQ(ftruncate(fd, 0), -1);
	EQ(errno, EPERM);
	close(fd);
}

/* In a pid namespace of its own, which has its own setting. */
static int make_where_programs_are_refused(void)
{
	int setting = open("/proc/sys/vm/memfd_noexec", O_WRONLY | O_CLOEXEC);
	int fd;

	if (setting < 0 || write(setting, "2", 1) != 1)
		return NO_SETTING;
	/* Before Linux 6.6 this holds for those without either flag, too. */
	fd = memfd_create("gpumap-test", MFD_CLOEXEC | MFD_EXEC);
	if (fd >= 0 || errno != EACCES)
		return 1;
	fd = gm_memory_file("gpumap-test");
	if (fd < 0)
		return 2;
	/* F_SEAL_EXEC says that it was asked for as no program. */
	return ftruncate(fd, 4096) == 0 &&
			       fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 &&
			       (fcntl(fd, F_GET_SEALS) & F_SEAL_EXEC) != 0
		       ? 0
		       : 3;
}

static void no_program_is_asked_for(void)
{
	int status = -1;
	pid_t outer, inner;

	fflush(stdout);
	outer = fork();
	if (outer == 0) {
		if (unshare(CLONE_NEWPID) != 0)
			_exit(NO_SETTING);
		inner = fork();
		if (inner == 0)
			_exit(make_where_programs_are_refused());
		_exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status)
			      ? WEXITSTATUS(status)
			      : 4);
	}
	waitpid(outer, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SETTING)
		SKIP(1, "needs root and Linux 6.3, for vm.memfd_noexec");
	else
		EQ(status, 0);
}

TAP_CASE()
{
	seals_can_be_added();
	no_program_is_asked_for();
	return tap_done();
}

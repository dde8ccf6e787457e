/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/peercred.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/node_clock.h"
#include "agent/common/read_file.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static uint64_t boot_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* When a process started, in clock ticks since boot: field 22, counted from
 * behind the name, which may hold anything.  0 when it cannot be read. */
static uint64_t start_ticks(pid_t pid)
{
	char path[32], text[1024];
	uint64_t ticks = 0;
	char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (gm_read_file(path, text, sizeof(text)) < 0)
		return 0;
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, " %" SCNu64, &ticks) != 1)
		return 0;
	return ticks;
}

/* Has @pid been given to a process that is younger than the connection?  Clock
 * ticks are coarse: one of them is granted. */
static int is_younger(pid_t pid, uint64_t since_ns)
{
	uint64_t tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t asleep = boot_time() - gm_node_clock_now();

	return start_ticks(pid) > (since_ns + asleep) / tick + 1;
}

int gm_peer_pidfd(int socket, pid_t pid, uint64_t since_ns)
{
	socklen_t bytes = sizeof(int);
	int fd = -1;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0)
		return fd;
	if (errno != ENOPROTOOPT)
		return errno == ENODATA ? -ESRCH : -errno;
	if (pid <= 0)
		return -ENOTSUP;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return errno == EINVAL ? -ENOTSUP : -errno;
	if (is_younger(pid, since_ns)) {
		close(fd);
		return -ESRCH;
	}
	return fd;
}

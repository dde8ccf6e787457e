/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/peercred.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/common/lineage.h"
#include "agent/common/node_clock.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Has @pid been given to a process that is younger than the connection?  Clock
 * ticks are coarse: one of them is granted. */
static int is_younger(pid_t pid, uint64_t since_ns)
{
	uint64_t tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t asleep =
		gm_node_clock_read(CLOCK_BOOTTIME) - gm_node_clock_now();
	struct gm_lineage_member member;

	return gm_lineage_stat(pid, &member) == 0 &&
	       member.start > (since_ns + asleep) / tick + 1;
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

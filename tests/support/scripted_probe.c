/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A gpumap-probe whose messages a test decides: it passes on every record, both
 * ways, between gpumapd and the socket whose path is in its environment.  The
 * program ends when either hangs up.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/common/probe_wire.h"

/* Returns whether both still listen. */
static bool pass_on(int from, int to)
{
	/* One that is too long is passed on too long. */
	char record[2 * sizeof(struct gm_probe_wire)];
	ssize_t n = recv(from, record, sizeof(record), 0);

	return n > 0 && send(to, record, (size_t)n, MSG_NOSIGNAL) == n;
}

int main(void)
{
	const char *path = getenv("GPUMAP_PUPPET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct pollfd both[2] = { { GM_PROBE_FD, POLLIN, 0 },
				  { -1, POLLIN, 0 } };

	if (path == NULL || strlen(path) >= sizeof(to.sun_path))
		return 2;
	strcpy(to.sun_path, path);
	both[1].fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(both[1].fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		return 3;
	for (;;) {
		if (poll(both, 2, -1) < 0)
			return 4;
		if (both[0].revents && !pass_on(both[0].fd, both[1].fd))
			return 0;
		if (both[1].revents && !pass_on(both[1].fd, both[0].fd))
			return 0;
	}
}

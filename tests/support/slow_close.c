/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/slow_close.h"

int lingering(int *ret_other)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { .l_onoff = 1, .l_linger = 60 };
	socklen_t bytes = sizeof(to);
	static const char data[65536];
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret_other = -1;
	if (bind(door, (struct sockaddr *)&to, bytes) == 0 &&
	    listen(door, 1) == 0 &&
	    getsockname(door, (struct sockaddr *)&to, &bytes) == 0 &&
	    connect(fd, (struct sockaddr *)&to, bytes) == 0)
		*ret_other = accept(door, NULL, NULL);
	close(door);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	while (*ret_other >= 0 &&
	       send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	return fd;
}

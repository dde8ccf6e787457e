/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A gpumap-probe whose messages a test decides.  As a census or a watcher it
 * passes on every record, both ways, between gpumapd and the socket whose path
 * is in its environment, behind a record that says its role, and lives until
 * either hangs up.  The driver knows every card that it is asked about.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/common/probe_wire.h"

#define BEAT_MS 200

static bool say(int to, const struct gm_probe_wire *wire)
{
	return send(to, wire, sizeof(*wire), MSG_NOSIGNAL) == sizeof(*wire);
}

/* Returns whether both still listen. */
static bool pass_on(int from, int to)
{
	/* One that is too long is passed on too long. */
	char record[2 * sizeof(struct gm_probe_wire)];
	ssize_t n = recv(from, record, sizeof(record), 0);

	return n > 0 && send(to, record, (size_t)n, MSG_NOSIGNAL) == n;
}

static int relay(uint32_t role)
{
	const struct gm_probe_wire hello = { .type = role };
	const struct gm_probe_wire beat = { .type = GM_PROBE_CALL,
					    .text = "a test" };
	const char *path = getenv("GPUMAP_PUPPET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct pollfd both[2] = { { GM_PROBE_FD, POLLIN, 0 },
				  { -1, POLLIN, 0 } };

	if (path == NULL || strlen(path) >= sizeof(to.sun_path))
		return 2;
	strcpy(to.sun_path, path);
	both[1].fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(both[1].fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
	    !say(both[1].fd, &hello))
		return 3;
	for (;;) {
		int n = poll(both, 2, BEAT_MS);

		if (n < 0 || (n == 0 && !say(GM_PROBE_FD, &beat)))
			return 4;
		if (both[0].revents && !pass_on(both[0].fd, both[1].fd))
			return 0;
		if (both[1].revents && !pass_on(both[1].fd, both[0].fd))
			return 0;
	}
}

/* "GPU-" or "MIG-" and 16 bytes, with hyphens anywhere. */
static void read_uuid(const char *text, uint8_t ret_uuid[16])
{
	unsigned n = 0;

	for (text += strnlen(text, 4); *text && n < 32; text++) {
		char digit[2] = { *text, '\0' };
		uint8_t value = (uint8_t)strtoul(digit, NULL, 16);

		if (*text == '-')
			continue;
		ret_uuid[n / 2] = (uint8_t)(ret_uuid[n / 2] << 4 | value);
		n++;
	}
}

static int drive(const char *device)
{
	struct gm_probe_wire wire = { .type = GM_PROBE_DRIVER };

	wire.device.facts.numa_node = -1;
	if (device) {
		read_uuid(device, wire.uuid);
		say(GM_PROBE_FD, &wire);
	}
	wire = (struct gm_probe_wire){ .type = GM_PROBE_DONE };
	return !say(GM_PROBE_FD, &wire);
}

int main(int argc, char **argv)
{
	const char *device = NULL;
	bool is_driver = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--census") == 0)
			return relay(GM_ROLE_CENSUS);
		if (strcmp(argv[i], "--watch") == 0)
			return relay(GM_ROLE_WATCH);
		is_driver |= strcmp(argv[i], "--driver") == 0;
		if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
			device = argv[i + 1];
	}
	return is_driver ? drive(device) : 0;
}

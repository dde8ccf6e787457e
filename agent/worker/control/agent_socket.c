/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/agent_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/fds.h"

/* Does a record carry as many descriptors as its type has? */
static bool goes_with(uint32_t type, int n_fds)
{
	switch (type) {
	case GM_WIRE_ATTACH:
		return n_fds > GM_SESSION_DOORBELL; /* the socket is optional */
	case GM_WIRE_REGISTER:
	case GM_WIRE_IMPORT:
	case GM_WIRE_WAKER:
	case GM_WIRE_TRY:
	case GM_WIRE_LEND:
	case GM_WIRE_BORROW:
	case GM_WIRE_JOIN:
	case GM_WIRE_TRACE:
		return n_fds == 1;
	case GM_WIRE_MASK:
		return n_fds == 1 || n_fds == 2;
	default:
		return n_fds == 0;
	}
}

/* The descriptors did not fit into this process: discard those that did. */
static void forget_fds(int *fds)
{
	gm_agent_socket_close_fds(fds);
	for (int i = 0; i < GM_SESSION_FDS; i++)
		fds[i] = -1;
}

int gm_agent_socket_receive(int pair, int flags, struct gm_wire *ret_wire,
			    int ret_fds[GM_SESSION_FDS])
{
	struct iovec data = { ret_wire, sizeof(*ret_wire) };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };
	union gm_fds_room room;
	ssize_t n;
	int n_fds;

	for (int i = 0; i < GM_SESSION_FDS; i++)
		ret_fds[i] = -1;
	gm_fds_expect(&msg, &room, GM_SESSION_FDS);
	do {
		n = recvmsg(pair, &msg, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	if (n == 0)
		return 0;
	n_fds = (int)gm_fds_take(&msg, ret_fds);
	if (n == sizeof(*ret_wire) && !(msg.msg_flags & MSG_TRUNC) &&
	    (msg.msg_flags & MSG_CTRUNC ? n_fds < GM_SESSION_FDS
					: goes_with(ret_wire->type, n_fds))) {
		if (msg.msg_flags & MSG_CTRUNC)
			forget_fds(ret_fds);
		return 1;
	}
	gm_agent_socket_close_fds(ret_fds);
	return -EPROTO;
}

int gm_agent_socket_send(int pair, const struct gm_wire *wire, int fd,
			 int flags)
{
	struct iovec data = { (void *)(uintptr_t)wire, sizeof(*wire) };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };
	union gm_fds_room room;
	ssize_t n;

	gm_fds_put(&msg, &room, &fd, fd >= 0);
	do {
		n = sendmsg(pair, &msg, flags | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

struct gm_wire gm_agent_socket_about(enum gm_wire_type type, uint64_t session,
				     uint32_t place)
{
	struct gm_wire wire;

	/* Clear the padding too: the record goes to another process. */
	memset(&wire, 0, sizeof(wire));
	wire.type = type;
	wire.session = session;
	wire.place = place;
	return wire;
}

void gm_agent_socket_say(int pair, enum gm_wire_type type, uint64_t session,
			 uint32_t place, int status, const char *text)
{
	struct gm_wire wire = gm_agent_socket_about(type, session, place);

	wire.status = status;
	snprintf(wire.text, sizeof(wire.text), "%s", text);
	gm_agent_socket_send(pair, &wire, -1, 0);
}

void gm_agent_socket_close_fds(int fds[GM_SESSION_FDS])
{
	for (int i = 0; i < GM_SESSION_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

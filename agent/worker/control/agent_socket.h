/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * agent_socket - sends and receives records of gpumapd (agent/common/wire.h).
 */
#ifndef GM_WORKER_CONTROL_AGENT_SOCKET_H
#define GM_WORKER_CONTROL_AGENT_SOCKET_H

#include <stdint.h>

#include "agent/common/wire.h"
#include "agent/worker/queue/session.h"

/*
 * gm_agent_socket_receive - receive the next record
 *
 * flags	of recvmsg(), MSG_DONTWAIT or 0
 * ret_fds	GM_SESSION_FDS descriptors, for the caller to close; -1 where
 *		none came, or for all if this process has no room for them
 *
 * Returns	1
 *		0		gpumapd has closed its end
 *		-EAGAIN		there is none now
 *		-EPROTO		not a valid record; its descriptors are closed
 *		and what recvmsg returns
 */
int gm_agent_socket_receive(int pair, int flags, struct gm_wire *ret_wire,
			    int ret_fds[GM_SESSION_FDS]);

/* Send a record with a descriptor, which the caller keeps, or -1.  @flags are
 * those of send(), MSG_DONTWAIT or 0.  Returns 0 or -errno, -EAGAIN for no
 * room.  Threads: any, a record is sent as a whole. */
int gm_agent_socket_send(int pair, const struct gm_wire *wire, int fd,
			 int flags);

/* Make a record of a type about a session, to be filled further. */
struct gm_wire gm_agent_socket_about(enum gm_wire_type type, uint64_t session,
				     uint32_t place);

/* Send a record.  @text is truncated if it is too long.  Waits for room. */
void gm_agent_socket_say(int pair, enum gm_wire_type type, uint64_t session,
			 uint32_t place, int status, const char *text);

void gm_agent_socket_close_fds(int fds[GM_SESSION_FDS]);

#endif

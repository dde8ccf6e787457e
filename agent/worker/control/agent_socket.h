/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * agent_socket - records from and to gpumapd (agent/common/wire.h).
 */
#ifndef GM_WORKER_CONTROL_AGENT_SOCKET_H
#define GM_WORKER_CONTROL_AGENT_SOCKET_H

#include <stdint.h>

#include "agent/common/wire.h"
#include "agent/worker/queue/session.h"

/*
 * gm_pair_receive - the next record
 *
 * flags	of recvmsg(), MSG_DONTWAIT or 0
 * ret_fds	GM_SESSION_FDS descriptors, -1 where none came, or where this
 *		process has no room for all that came; the caller's
 *
 * Returns	1
 *		0		gpumapd has hung up
 *		-EAGAIN		there is none now
 *		-EPROTO		not a record of ours; its descriptors are closed
 *		and what recvmsg returns
 */
int gm_pair_receive(int pair, int flags, struct gm_wire *ret_wire,
		    int ret_fds[GM_SESSION_FDS]);

/* With a descriptor, which stays the caller's, or -1, and the flags of send(),
 * MSG_DONTWAIT or 0.  Returns 0 or -errno, -EAGAIN for no room.  Threads: any,
 * a record is whole. */
int gm_pair_send(int pair, const struct gm_wire *wire, int fd, int flags);

/* A record of a type about a session, to fill further. */
struct gm_wire gm_pair_about(enum gm_wire_type type, uint64_t session,
			     uint32_t place);

/* @text is cut where it does not fit.  Waits for room. */
void gm_pair_say(int pair, enum gm_wire_type type, uint64_t session,
		 uint32_t place, int status, const char *text);

void gm_pair_close_fds(int fds[GM_SESSION_FDS]);

#endif

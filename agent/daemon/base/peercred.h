/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peercred - a descriptor of the process at the other end of a socket.
 *
 * Linux 6.5 hands out the one that connected (SO_PEERPIDFD).  Before, it is
 * opened by pid, and a pid may have been given anew since the connection was
 * made; a process that has started later than that is not our peer.
 */
#ifndef GM_DAEMON_BASE_PEERCRED_H
#define GM_DAEMON_BASE_PEERCRED_H

#include <stdint.h>
#include <sys/types.h>

/*
 * gm_peer_pidfd - a descriptor that becomes readable when the peer is gone
 *
 * pid		from SO_PEERCRED; 0 for a process that we cannot see
 * since_ns	when the connection was accepted, of the node
 *
 * Returns	it, or
 *		-ESRCH		the peer is gone
 *		-ENOTSUP	it cannot be seen from here
 *		-EMFILE, -ENFILE, -ENOMEM
 */
int gm_peer_pidfd(int socket, pid_t pid, uint64_t since_ns);

#endif

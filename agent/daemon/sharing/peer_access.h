/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer_access - let jobs of one row copy from buffers of another.
 *
 * A peer mapping is for a session, a handle and the row of the jobs; that row's
 * worker then knows the handle.  There are two ways.  If the device reaches the
 * memory, its worker imports it:
 *
 *	EXPORT (source)   [PROVE (source)   TRY (row)]   IMPORT (row)
 *
 * where PROVE and TRY are for the first mapping between two cards, see
 * devices/p2p.h.  Every other copy goes through a bounce buffer, a memfd of the
 * agent that both workers map, one for each session and row that borrows, see
 * agent/common/wire.h:
 *
 *	LEND (source)   BORROW (row)   then FETCH, passed on, for each piece
 *
 * A buffer that was not allocated as exportable, or of which the uid may export
 * no more, goes that way too.  An import is charged as an export is; a bounce
 * buffer with the arenas.
 *
 * When the source's worker ends, the other one is told to forget the handle.
 * When the row's worker ends, so does the mapping, and the library asks anew.
 * A bounce buffer that a dead worker had is never used again, because a lender
 * may still be writing there.  Each FETCH is answered once, by the lender or,
 * when that is gone, here.
 */
#ifndef GM_DAEMON_SHARING_PEER_ACCESS_H
#define GM_DAEMON_SHARING_PEER_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/wire.h"
#include "agent/daemon/workers/worker_users.h"

struct gm_connection;
struct gm_control_server;
struct gm_worker_process;
struct gm_request;
struct gm_session;
struct gm_user;

TAILQ_HEAD(gm_fetch_list, gm_fetch);

/* The peer mappings of one session. */
struct gm_peer_mappings {
	TAILQ_HEAD(, gm_peer_mapping) list;
	TAILQ_HEAD(, gm_bounce_buffer) stages; /* that may be lent */
	uint64_t last_stage;                   /* id */
	uint32_t n;
	uint32_t n_forgotten; /* that its client waits for */
};

/* Rows that drain wait for each other's pieces; workers ask for them. */
extern const struct gm_worker_user gm_peer_worker_user;

/* Handlers, see sessions/dispatch.h. */
int gm_peer_reach_handle(struct gm_connection *c, const struct gm_request *r);
int gm_peer_unreach_handle(struct gm_connection *c, const struct gm_request *r);

#endif

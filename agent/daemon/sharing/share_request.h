/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_request - exported buffers that have a name, one or a set of them.
 *
 * A name means a set of exports, or nothing: it comes with all of them in one
 * step, and goes with all.  The session that has shared it and those that have
 * opened it hold it, and only they can import its buffers.  The agent has a
 * descriptor of each buffer meanwhile, which keeps its memory:
 *
 *	end of                         the name   the memory
 *	-----------------------------  ---------  -----------------------------
 *	a session that has opened it   stays      stays
 *	the session that has shared    stays      stays, charged to its uid
 *	it, or the buffer was freed
 *	the last of those that hold    is free    is given back, once no session
 *	it                                        has it imported or mapped
 *	likewise, GPUMAP_SHARE_KEEP    stays      stays, charged to its uid
 *	SHARE_END                      is free    likewise
 *	the worker of a host's row     stays      stays as it was written;
 *	                                          imports are stale, and may be
 *	                                          made anew
 *	that of a card, keep-shares    stays      likewise
 *	that of a card, otherwise      is free    as with the last that holds it
 *	the row: drained, LOST,        is free    likewise
 *	another device
 *	this agent, where a service    is there   stays; the processes hold it
 *	manager keeps descriptors:     again      that held it, see
 *	share_store.h                             share_store.h
 *	this agent, otherwise          is free    sessions end with it: likewise
 *
 * Two of these at once happen one after the other, because all happen in the
 * loop, and none needs the process that died.  A name is free before the memory
 * is: sessions that have imported it keep it, and it is charged until then, see
 * exports.h.
 *
 * A session may claim a name for a share that it is about to make, so that of
 * two sessions that would make the same share only one does.  Sessions that
 * open a name do not see claims.
 *
 * A session that opens a share that is read-only cannot write it: workers
 * check, and a host's memory is sealed against new writable mappings.
 * Descriptors of a card's memory, which cannot be sealed, are given to sessions
 * of the user that is charged for it, and to no others.
 */
#ifndef GM_DAEMON_SHARING_SHARE_REQUEST_H
#define GM_DAEMON_SHARING_SHARE_REQUEST_H

#include "agent/daemon/base/connection.h"
#include "agent/daemon/workers/worker_users.h"

struct gm_control_server;
struct gm_daemon;
struct gm_export;
struct gm_share_holder;
struct gm_shared;

TAILQ_HEAD(gm_share_holder_list, gm_share_holder);

/* A session that is being freed holds nothing any more. */
void gm_shares_leave(struct gm_session *session);

/* The agent ends, and every session has: so does each share that was kept. */
void gm_shares_exit(struct gm_control_server *s);

/* Does this session hold what the export is shared as? */
bool gm_shares_holds(const struct gm_session *session,
		     const struct gm_export *export);

/* A worker that has memory of a name's stays, and with it the name ends. */
extern const struct gm_worker_user gm_share_worker_user;

/* Handlers, see sessions/dispatch.h. */
int gm_share_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_open_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_fds_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_close_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_offer_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_end_handle(struct gm_connection *c, const struct gm_request *r);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_request - exported buffers that have a name, one or a set of them.
 *
 * A name means a set of exports, or it means nothing: it comes with all of them
 * in one step, and goes with all.  Whoever has shared it or opened it holds it,
 * by a session; only holders can import its buffers.  We hold a descriptor of
 * each buffer meanwhile, which keeps its memory when nobody else does:
 *
 *	who dies, or lets go           the name   the memory
 *	-----------------------------  ---------  -----------------------------
 *	who has opened it              stays      stays
 *	who has shared it, or has      stays      stays, charged to its uid
 *	freed the buffer
 *	the last of those who hold it  is free    is given back, once nobody
 *	                                          has it imported or mapped
 *	SHARE_END is asked for         is free    likewise
 *	the worker of a host's row     stays      stays as it was written; what
 *	                                          was imported is stale, and may
 *	                                          be imported anew
 *	that of a card, keep-shares    stays      likewise
 *	that of a card, otherwise      is free    as with the last who holds it
 *	the row: drained, LOST,        is free    likewise
 *	another device
 *	this agent                     is free    sessions end with us: likewise
 *
 * Two of these at once are one after the other, for all happen in the loop; and
 * none needs anything of who died.  That a name is free does not wait for the
 * memory: who imported keeps it, and it is charged until then, see exports.h.
 *
 * A session may claim a name for what it is about to share, so that of two that
 * would make the same thing only one does.  A claim means nothing to who opens.
 *
 * What is shared read-only nobody who opens it can write: workers judge, a
 * host's memory is sealed against new mappings that could, and descriptors of a
 * card's memory, which nothing holds back, are not given out.
 */
#ifndef GM_DAEMON_SHARING_SHARE_REQUEST_H
#define GM_DAEMON_SHARING_SHARE_REQUEST_H

#include "agent/daemon/base/connection.h"
#include "agent/daemon/workers/worker_users.h"

struct gm_daemon;
struct gm_export;
struct gm_share_holder;
struct gm_shared;

TAILQ_HEAD(gm_share_holder_list, gm_share_holder);

/* A session that is being freed holds nothing any more. */
void gm_shares_leave(struct gm_session *session);

/* Does this session hold what the export is shared as? */
bool gm_shares_holds(const struct gm_session *session,
		     const struct gm_export *export);

/* A worker that has memory of a name's stays, and with it the name ends. */
extern const struct gm_worker_user gm_share_worker_user;

/* Handlers, see sessions/dispatch.h. */
int gm_share_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_open_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_close_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_offer_handle(struct gm_connection *c, const struct gm_request *r);
int gm_share_end_handle(struct gm_connection *c, const struct gm_request *r);
int gm_shares_handle(struct gm_connection *c, const struct gm_request *r);

#endif

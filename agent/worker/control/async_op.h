/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_op - what the slow thread does for sessions.
 *
 * Allocations and copies from other rows that entries ask for; registrations,
 * exports and imports that gpumapd asks for; and the giving back of all of
 * these.  The slow thread is handed them in the order in which they take
 * effect, so who gives back and asks again gets what was given back.
 *
 * Memory is given back when nothing that may use it is under way any more, and
 * always before it is unmapped here.
 */
#ifndef GM_WORKER_CONTROL_ASYNC_OP_H
#define GM_WORKER_CONTROL_ASYNC_OP_H

#include "agent/worker/worker.h"

/*
 * gm_async_ops_begin - have @session->errand done
 *
 * Returns	0: the session is stalled, and goes on by itself when the entry
 *		has ended.  Otherwise the status of the entry, as
 *		gm_alloc_begin(), gm_load_begin() and gm_remote_copy_begin()
 */
int gm_async_ops_begin(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Give back what @session gave up and nothing uses any more. */
void gm_async_ops_give_back(struct gm_worker *worker,
			    struct gm_worker_session *session);

/* The same for all sessions, as long as any FORGET waits. */
void gm_async_ops_look(struct gm_worker *worker);

/* Records of gpumapd.  Each is answered, now or later; @fd is taken over. */
void gm_async_ops_register(struct gm_worker *worker, const struct gm_wire *wire,
			   int fd);
void gm_async_ops_forget(struct gm_worker *worker, const struct gm_wire *wire);
void gm_async_ops_export(struct gm_worker *worker, const struct gm_wire *wire);
void gm_async_ops_import(struct gm_worker *worker, const struct gm_wire *wire,
			 int fd);

/* Have the device reach a part of the session's arena, which is populated
 * first. gm_async_exec_reached() tells the outcome, unless this returns
 * -ENOMEM. */
int gm_async_ops_reach(struct gm_worker *worker,
		       struct gm_worker_session *session, uint32_t part);

/* The session, which is in no list any more, is to be DETACHED: as soon as
 * nothing of it is under way.  Called again whenever that may be so. */
void gm_async_ops_depart(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* Handle the jobs that the slow thread has done. */
void gm_async_ops_done(struct gm_worker *worker);

#endif

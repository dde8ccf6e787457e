/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_op - runs requests of sessions in the slow thread.
 *
 * Requests are allocations and copies from other rows, for entries;
 * registrations, exports and imports, for gpumapd; and the release of all of
 * these.  The slow thread gets them in the order in which they take effect, so
 * a session that frees memory and allocates again can get the freed memory.
 *
 * Memory is released when no work in flight may use it any more, and always
 * before it is unmapped here.
 */
#ifndef GM_WORKER_CONTROL_ASYNC_OP_H
#define GM_WORKER_CONTROL_ASYNC_OP_H

#include "agent/worker/worker.h"

/*
 * gm_async_ops_begin - begin the session's request
 *
 * Returns	0: the session is stalled, and goes on by itself when the entry
 *		has ended.  Otherwise the status of the entry, as
 *		gm_alloc_begin(), gm_load_begin() and gm_remote_copy_begin()
 */
int gm_async_ops_begin(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Release the given-up slots of @session that no entry uses any more. */
void gm_async_ops_give_back(struct gm_worker *worker,
			    struct gm_worker_session *session);

/* Release them for all sessions, while any FORGET waits. */
void gm_async_ops_look(struct gm_worker *worker);

/* Handle records of gpumapd.  Each is answered, now or later; @fd is taken
 * over. */
void gm_async_ops_register(struct gm_worker *worker, const struct gm_wire *wire,
			   int fd);
void gm_async_ops_forget(struct gm_worker *worker, const struct gm_wire *wire);
void gm_async_ops_export(struct gm_worker *worker, const struct gm_wire *wire);
void gm_async_ops_import(struct gm_worker *worker, const struct gm_wire *wire,
			 int fd);

/* Populate a part of the session's arena and map it for the device.
 * gm_async_exec_reached() gets the outcome, unless this returns -ENOMEM. */
int gm_async_ops_reach(struct gm_worker *worker,
		       struct gm_worker_session *session, uint32_t part);

/* Detach the session, which is in no list any more, as soon as nothing of it is
 * in progress.  Called again whenever that may be so. */
void gm_async_ops_depart(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* Handle the jobs that the slow thread has finished. */
void gm_async_ops_done(struct gm_worker *worker);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * remote_copy - copies out of the memory of other rows.
 *
 * Memory of another row that this row's device can map is imported, and entries
 * copy from it like from any memory.  Other memory is borrowed: the worker of
 * the source copies it piece by piece to a bounce buffer that both have mapped,
 * and this worker copies it from there (agent/common/wire.h).  Such an entry is
 * a fence (queue/async_exec.h): it begins when all entries before it have
 * ended.  A session has one at a time, so the session's bounce buffer belongs
 * to it until it ends.
 *
 * The copies wait for devices, so slow threads make them, in the rounds of each
 * row (remote_copy_queue.h).  Memory that is freed after a piece was requested
 * is freed after the piece was copied.  A bounce buffer that no row writes any
 * more is unmapped after the last piece.  No worker waits for another.
 *
 * When the deadline of such an entry passes, it ends as soon as the slow thread
 * has no piece of it.  A piece that the source may still write stays reserved
 * until the source has answered, and no other entry uses it before.
 */
#ifndef GM_WORKER_IO_REMOTE_COPY_H
#define GM_WORKER_IO_REMOTE_COPY_H

#include "agent/worker/worker.h"

/* Longest sleep while a copy has a deadline. */
#define GM_REMOTE_COPY_NAP_NS UINT64_C(500000000)

/*
 * gm_remote_copy_begin - begin the session's request, a COPY from borrowed
 * memory
 *
 * Returns	0: the session is stalled, and goes on by itself; -ESTALE: the
 *		buffer or its bounce buffer is gone
 */
int gm_remote_copy_begin(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* End copies whose deadline has passed.  Called when the clock is read. */
void gm_remote_copy_poll(struct gm_worker *worker);

/* How long until gm_remote_copy_poll() is needed at the latest, 0 if it is not
 * needed. */
uint64_t gm_remote_copy_nap(const struct gm_worker *worker);

/* The session leaves: its copy ends, and pieces that arrive later are
 * ignored. */
void gm_remote_copy_leave(struct gm_worker *worker,
			  struct gm_worker_session *session);

/* Handle records of gpumapd.  Each except FETCHED is answered, now or later;
 * @fd is taken over. */
void gm_remote_copy_prove(struct gm_worker *worker, const struct gm_wire *wire);
void gm_remote_copy_try(struct gm_worker *worker, const struct gm_wire *wire,
			int fd);
void gm_remote_copy_lend(struct gm_worker *worker, const struct gm_wire *wire,
			 int fd);
void gm_remote_copy_borrow(struct gm_worker *worker, const struct gm_wire *wire,
			   int fd);
void gm_remote_copy_fetch(struct gm_worker *worker, const struct gm_wire *wire);
void gm_remote_copy_fetched(struct gm_worker *worker,
			    const struct gm_wire *wire);

#endif

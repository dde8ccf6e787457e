/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * remote_copy - copies out of the memory of other rows.
 *
 * What this row's device can reach is imported, and an entry copies from it as
 * from anything else.  What it cannot is borrowed: the worker of the source
 * puts it on a stage that both have mapped, a piece at a time, and ours takes
 * it from there (agent/common/wire.h). Such an entry is a fence
 * (queue/async_exec.h): it begins when everything before it has ended, one of a
 * session at a time, so the session's stage is its own until it ends.
 *
 * All of it waits for devices, and is done by slow threads, and by the rounds
 * of each row (remote_copy_queue.h). What is to be freed after a piece was
 * asked for is freed after the piece was copied, and a stage that nobody writes
 * any more is unmapped behind the last piece. No worker waits for another.
 *
 * When the time of such an entry is up, it ends as soon as the slow thread has
 * nothing of it.  A piece that the source may still be writing to is away until
 * it has answered, and no other entry's before.
 */
#ifndef GM_WORKER_IO_REMOTE_COPY_H
#define GM_WORKER_IO_REMOTE_COPY_H

#include "agent/worker/worker.h"

#define GM_REMOTE_COPY_NAP_NS \
	UINT64_C(500000000) /* at most, where time counts */

/*
 * gm_remote_copy_begin - have @session->errand done, which copies what is
 * borrowed
 *
 * Returns	0: the session is stalled, and goes on by itself; -ESTALE
 */
int gm_remote_copy_begin(struct gm_worker *worker,
			 struct gm_worker_session *session);

/* By the clock: whose time is up? */
void gm_remote_copy_poll(struct gm_worker *worker);

/* How long until there is to be such a look, 0 for no such time. */
uint64_t gm_remote_copy_nap(const struct gm_worker *worker);

/* The session leaves: what is fetched for it is nobody's. */
void gm_remote_copy_leave(struct gm_worker *worker,
			  struct gm_worker_session *session);

/* Records of gpumapd.  Each but FETCHED is answered, now or later; @fd is taken
 * over. */
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

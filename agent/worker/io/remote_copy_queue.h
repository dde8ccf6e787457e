/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * remote_copy_queue - orders the pieces of copies between rows (remote_copy.h).
 *
 * Both rows make their half of such a copy in their slow threads, a piece at a
 * time.  On each row a piece counts in the round of its user (queue/drr.h).
 * Pieces of a user that has used up the round wait for the next round of this
 * row, which other rows do not influence.
 *
 * The slow thread has at most GM_REMOTE_COPY_QUEUE_MOST pieces, so that its
 * other jobs do not wait behind all requested pieces. Among users with credit,
 * the one with the fewest bytes so far is next. The slow thread may be busy
 * with another job, so no round waits for it.
 *
 * Memory that is given back while pieces of it wait is freed after them: they
 * are handed over first, regardless of the round.
 */
#ifndef GM_WORKER_IO_REMOTE_COPY_QUEUE_H
#define GM_WORKER_IO_REMOTE_COPY_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/worker/control/blocking_thread.h"

#define GM_REMOTE_COPY_QUEUE_MOST 2u

struct gm_async_op_job;
struct gm_worker_session;
struct gm_buffer_entry;
struct gm_worker;

/* The waiting pieces of one worker. */
struct gm_remote_copy_queue {
	struct gm_slow_jobs waiting;
	uint32_t n;           /* jobs in waiting */
	uint32_t n_in_flight; /* pieces at the slow thread */
	/* Bytes of the user whose piece was last, before that piece. */
	uint64_t carried;
	/* The slow thread has room, but all pieces wait for the next round. */
	bool held;
};

void gm_remote_copy_queue_init(struct gm_remote_copy_queue *remote_copies);

/* Hand a job of @e->bytes over to the slow thread, now or later.  The job uses
 * @e->slot and @e->stage. */
void gm_remote_copy_queue_give(struct gm_worker *worker,
			       struct gm_async_op_job *e);

/* Called in the job's done(): the slow thread has returned it. */
void gm_remote_copy_queue_landed(struct gm_worker *worker);

/* Hand over jobs as far as there is room.  Returns whether there were any. */
bool gm_remote_copy_queue_go(struct gm_worker *worker);

/* Hand over at once all waiting jobs of @session that use @slot; NULL: all of
 * the session's. */
void gm_remote_copy_queue_hurry(struct gm_worker *worker,
				struct gm_worker_session *session,
				const struct gm_buffer_entry *slot);

/* Take back a waiting job of @session with this @done.  NULL for none. */
struct gm_async_op_job *gm_remote_copy_queue_take_back(
	struct gm_worker *worker, const struct gm_worker_session *session,
	void (*done)(struct gm_blocking_job *, struct gm_worker *));

#endif

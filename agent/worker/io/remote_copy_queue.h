/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * remote_copy_queue - whose piece is next, of copies between rows
 * (remote_copy.h).
 *
 * Both rows do their half of such a copy in their slow threads, a piece at a
 * time.  On each a piece is of the round of its user (queue/drr.h), as all that
 * is done in turns: what belongs to one who has nothing left of it waits for
 * the next round of this row, which no other row has a say in.
 *
 * The slow thread has no more than GM_REMOTE_COPY_QUEUE_MOST of them, and what
 * else waits for it is not behind all that anybody asks for. Where several
 * users have something left the next is his who has had the fewest bytes. The
 * slow thread may be busy with something else, so no round waits for it.
 *
 * What is given back while pieces of it wait is given back behind them: they
 * are handed over first, whatever is left of the round.
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

/* Of one worker. */
struct gm_remote_copy_queue {
	struct gm_slow_jobs waiting;
	uint32_t n;       /* of them */
	uint32_t n_aloft; /* that the slow thread has */
	uint64_t carried; /* of the user whose was last, before */
	bool held;        /* there is room, and they wait for the next round */
};

void gm_remote_copy_queue_init(struct gm_remote_copy_queue *ferry);

/* A job of @e->bytes, that uses @e->slot and @e->stage: hand it over, now or
 * later. */
void gm_remote_copy_queue_give(struct gm_worker *worker,
			       struct gm_async_op_job *e);

/* In its done(): the slow thread has it no more. */
void gm_remote_copy_queue_landed(struct gm_worker *worker);

/* Hand over what there is room for.  Returns whether there was anything. */
bool gm_remote_copy_queue_go(struct gm_worker *worker);

/* All that wait and use @slot, of @session; NULL: all of the session's. */
void gm_remote_copy_queue_hurry(struct gm_worker *worker,
				struct gm_worker_session *session,
				const struct gm_buffer_entry *slot);

/* One that waits, of @session and to be @done so: it is the caller's again.
 * NULL for none. */
struct gm_async_op_job *gm_remote_copy_queue_take_back(
	struct gm_worker *worker, const struct gm_worker_session *session,
	void (*done)(struct gm_slow_job *, struct gm_worker *));

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fetch - the next entry of a queue, and whether it may begin.
 *
 * A second slot (shm/queue.h) is judged together with its first, while both lie
 * in the ring, and consumed by itself when its turn comes: it does nothing,
 * ends with 0, and has to be there then.  So positions are consumed and end one
 * by one, whatever an entry has.
 */
#ifndef GM_WORKER_QUEUE_FETCH_H
#define GM_WORKER_QUEUE_FETCH_H

#include "agent/worker/queue/session.h"

/* At the beginning of a turn: what does the client cancel? */
static inline void gm_intake_turn(struct gm_worker_session *session)
{
	session->cancel = gm_get(&session->timeline->cancel);
	session->cancels = session->cancel != 0;
}

/*
 * gm_intake - judge the entry at the head of a queue
 *
 * words	a private copy of its slot
 *
 * Returns	as gm_judge_entry(), and
 *		-ETIME		its deadline has passed
 *		-ECANCELED	the client wants it no longer
 * 		-EIO, -EINVAL it waits for what will never be, see dependency.h
 *		-EAGAIN		it waits: @session->wait says for what
 *
 * But for -EPROTO and -EAGAIN the entry is to be consumed, and what it has
 * behind it is expected from then on.
 */
int gm_intake(struct gm_worker_session *session,
	      const uint64_t words[GM_ENTRY_WORDS],
	      struct gm_decoded_entry *ret_verdict);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fetch - decodes the next entry of a queue and decides whether it may begin.
 *
 * A second slot (shm/queue.h) is decoded together with its first slot while
 * both lie in the ring.  The second slot is consumed at its own position: it
 * has no effect, ends with status 0, and must still be in the ring then.
 * Positions are therefore consumed and end one by one, whether an entry has one
 * slot or two.
 */
#ifndef GM_WORKER_QUEUE_FETCH_H
#define GM_WORKER_QUEUE_FETCH_H

#include "agent/worker/queue/session.h"

/* Read what the client cancels, at the beginning of a turn. */
static inline void gm_intake_turn(struct gm_worker_session *session)
{
	session->cancel = gm_get(&session->timeline->cancel);
	session->cancels = session->cancel != 0;
}

/*
 * gm_fetch_entry - decode the entry at the head of a queue
 *
 * words	a private copy of its slot
 *
 * Returns	as gm_decode_entry(), and
 *		-ETIME		its deadline has passed
 *		-ECANCELED	the client has cancelled it
 *		-EIO, -EINVAL	it waits for a position that its timeline never
 *				reaches, see dependency.h
 *		-EAGAIN		it waits: @session->wait holds the positions
 *
 * The caller consumes the entry unless the result is -EPROTO or -EAGAIN.  From
 * then on the entry's second slot is expected next, if it has one.
 */
int gm_fetch_entry(struct gm_worker_session *session,
		   const uint64_t words[GM_ENTRY_WORDS],
		   struct gm_decoded_entry *ret_verdict);

#endif

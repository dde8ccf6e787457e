/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * quantum - what one queue gets before the next one's turn.
 *
 * At most GM_TURN_ENTRIES entries or a share of payload: a slice of the device
 * (GM_TURN_BYTES where it says nothing), or what the session's last turns did
 * in GM_TURN_NS where that is less.  Bytes alone
 * do not bound time: pages that nobody has touched yet, or denormal numbers,
 * make work ten to forty times slower for its size.  Entries end in the order
 * in which they came.  A job above GM_TURN_SMALL is a long one: what
 * ended before it is published before it starts, so that nobody waits for a
 * neighbour's bytes, and what does not fit into this turn goes on in the next.
 *
 * The completions of a turn are published in batches, each after the journal
 * has it (journal.h), from the last to the first (ring.h).  A batch is half a
 * turn at most: while the client takes one, the worker makes the next.
 */
#ifndef GM_WORKER_QUEUE_QUANTUM_H
#define GM_WORKER_QUEUE_QUANTUM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/device/device.h"
#include "agent/worker/queue/session.h"

#define GM_TURN_ENTRIES 32u
#define GM_TURN_BATCH   16u
#define GM_TURN_BYTES   (UINT64_C(1) << 20)
#define GM_TURN_SMALL   (UINT64_C(64) << 10)
#define GM_TURN_LEAST   (UINT64_C(16) << 10)  /* of a share */
#define GM_TURN_FIRST   (UINT64_C(32) << 10)  /* before anything was timed */
#define GM_TURN_NS      UINT64_C(25000)       /* that a share is to last */
#define GM_TURN_ALONE   2u                    /* shares, beside nobody, */
#define GM_TURN_FAST    (UINT64_C(128) << 10) /* where a share is this much */

/* Is there anything to do?  Cheap: one load that misses only when it is so. */
static inline bool gm_turn_due(const struct gm_worker_session *session)
{
	return gm_ring_ready(&session->entries, GM_ENTRY_WORDS) ||
	       session->work.bytes;
}

/*
 * gm_turn_share - what a session gets in its next turn
 *
 * share	what it had in this one
 * bytes	of payload that were timed in it, and took @ns
 * most		of a turn, a multiple of GM_TURN_LEAST
 *
 * Returns	a multiple of GM_TURN_LEAST up to @most, at most twice @share
 */
uint64_t gm_turn_share(uint64_t share, uint64_t bytes, uint64_t ns,
		       uint64_t most);

/* What @bytes cost of the round of a session whose turns are @share.  Who is
 * slow for his size has the row for longer, and pays for that: up to eight
 * times. */
int64_t gm_turn_price(const struct gm_backend_device *dev, uint64_t share,
		      uint64_t bytes);

/* Learn from @bytes of its payload that took @ns. */
void gm_turn_learn(struct gm_worker_session *session,
		   const struct gm_backend_device *dev, uint64_t bytes,
		   uint64_t ns);

/*
 * gm_turn_serve - one turn
 *
 * Wakes the client when it sleeps and something ended.  It leaves
 * @session->halted where the caller has something to do: @session->errand, when
 * it has a handle, and gm_turn_finish() with its outcome before the next turn;
 * what was given up in @session->buffers; a head that waits, by @session->wait;
 * or the end of the session after a breach of the contract.
 * Then @session->why says which, what ended before it is published, and the
 * session must not be served again.
 *
 * Returns	how many entries ended
 */
uint32_t gm_turn_serve(struct gm_worker_session *session,
		       struct gm_backend_device *dev);

/* The entry whose errand it was ends so. */
void gm_turn_finish(struct gm_worker_session *session, int32_t status);

#endif

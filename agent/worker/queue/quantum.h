/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * quantum - serves one queue for one turn.
 *
 * A turn is at most GM_TURN_ENTRIES entries or a share of payload.  A share is
 * a slice of the device (GM_TURN_BYTES if the device sets none), or the bytes
 * that the session's last turns processed in GM_TURN_NS if these are fewer.
 * Bytes alone do not bound time: pages without memory yet, or denormal numbers,
 * make work ten to forty times slower for its size.
 *
 * Entries end in the order in which they came.  A job above GM_TURN_SMALL is
 * long: completions before it are published before it starts, so that they do
 * not wait for it.  The part that does not fit into this turn runs in the next.
 *
 * Completions are published in batches, each after the journal has it
 * (journal.h), from the last to the first (ring.h).  A batch is at most half a
 * turn: while the client takes one, the worker makes the next.
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
#define GM_TURN_LEAST   (UINT64_C(16) << 10) /* minimum share */
#define GM_TURN_FIRST   (UINT64_C(32) << 10) /* first share */
#define GM_TURN_NS      UINT64_C(25000)      /* target time of a share */
/* Shares per turn of a session that is the only one awake, where its share is
 * at least GM_TURN_FAST. */
#define GM_TURN_ALONE 2u
/* See above. */
#define GM_TURN_FAST (UINT64_C(128) << 10)

/* Has the session work for a turn?  Cheap: one load, which misses the cache
 * only if there is work. */
static inline bool gm_turn_due(const struct gm_worker_session *session)
{
	return gm_ring_ready(&session->entries, GM_ENTRY_WORDS) ||
	       session->work.bytes;
}

/*
 * gm_quantum_share - compute the share of a session's next turn
 *
 * share	share of this turn
 * bytes	of payload that were timed in this turn, and took @ns
 * most		limit of a turn, a multiple of GM_TURN_LEAST
 *
 * Returns	a multiple of GM_TURN_LEAST up to @most, at most twice @share;
 *		if @bytes are fewer than GM_TURN_LEAST, not less than @share
 */
uint64_t gm_quantum_share(uint64_t share, uint64_t bytes, uint64_t ns,
			  uint64_t most);

/* Price of @bytes in the round of a session with this @share.  A session whose
 * work is slow for its size occupies the row for longer and pays up to eight
 * times the bytes. */
int64_t gm_quantum_price(const struct gm_backend_device *dev, uint64_t share,
			 uint64_t bytes);

/* Adjust the session's share: @bytes of its payload took @ns. */
void gm_quantum_learn(struct gm_worker_session *session,
		      const struct gm_backend_device *dev, uint64_t bytes,
		      uint64_t ns);

/*
 * gm_quantum_serve - serve one turn
 *
 * Wakes the client if it sleeps and an entry ended.  Sets @session->halted if
 * the caller has work:
 *
 *  - @pending of the session has a handle: start that request, and call
 *    gm_quantum_finish() with its status before the next turn;
 *  - @session->buffers has buffers that were given up;
 *  - @session->wait is on: the head of the ring waits;
 *  - @session->why is set: the client broke the contract.  The completions
 *    before that are published, and the session must not be served again.
 *
 * Returns	how many entries ended
 */
uint32_t gm_quantum_serve(struct gm_worker_session *session,
			  struct gm_backend_device *dev);

/* End the entry whose request finished with @status. */
void gm_quantum_finish(struct gm_worker_session *session, int32_t status);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * batch - collects completions and publishes them to the client.
 *
 * The functions are inline because every turn of every queue uses them.
 */
#ifndef GM_WORKER_QUEUE_BATCH_H
#define GM_WORKER_QUEUE_BATCH_H

#include "agent/worker/queue/dependency.h"
#include "agent/worker/queue/quantum.h"
#include "agent/worker/queue/session.h"
#include "shm/point.h"
#include "shm/tracepoint.h"

/* Entries that have ended, in order, and whose completions are not published
 * yet. */
struct gm_batch {
	uint32_t first; /* position of the first */
	uint32_t n;
	uint32_t seconds; /* second slots among these n, which are no jobs */
	uint32_t failed;  /* among these n, with an error */
	uint32_t ended;   /* in this turn, published or not */
	int32_t status[GM_TURN_ENTRIES];
};

static inline void gm_batch_end(struct gm_batch *batch, int32_t status)
{
	batch->status[batch->n++] = status;
	batch->failed += status < 0;
	batch->ended++;
}

static inline void gm_batch_tell_journal(struct gm_worker_session *s,
					 const struct gm_batch *batch)
{
	for (uint32_t i = 0; i < batch->n; i++)
		gm_journal_give(s->owed, s->done.mask, batch->first + i,
				s->done.pos + i);
	GM_POINT("worker_given");
	gm_journal_advance(s->owed, s->done.pos + batch->n);
	GM_POINT("worker_advanced");
}

static inline void gm_batch_publish(struct gm_worker_session *s,
				    struct gm_batch *batch)
{
	uint64_t words[GM_DONE_WORDS];
	gm_a64 *completed = &s->signs->completed, *failed = &s->signs->failed;

	if (batch->n == 0)
		return;
	gm_batch_tell_journal(s, batch);
	for (uint32_t i = batch->n; i-- > 0;) {
		if (i == 0)
			GM_POINT("worker_half_published");
		gm_done_pack(batch->first + i, batch->status[i], words);
		gm_ring_put(&s->done, GM_DONE_WORDS, i, words);
	}
	GM_POINT("worker_published");
	s->done.pos += batch->n;
	batch->first += batch->n;
	gm_time_advance(s, batch->n);
	if (__builtin_expect(gm_ring_must_wake(&s->waker), 0))
		gm_session_wake(s, false);
	if (__builtin_expect(gm_wakeup_list_is_awaited(s->wakeups), 0))
		gm_wakeup_list_tell(s->wakeups);
	gm_put(completed, gm_get(completed) + batch->n - batch->seconds);
	if (__builtin_expect(batch->failed != 0, 0))
		gm_put(failed, gm_get(failed) + batch->failed);
	GM_TRACEPOINT(complete, s->id, batch->first, batch->n);
	batch->n = 0;
	batch->seconds = 0;
	batch->failed = 0;
}

#endif

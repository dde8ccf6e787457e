/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * quantum_rig.h - the worker's end of a queue, served in this process over a
 * memfd, by a backend that only counts.
 */
#ifndef GM_TEST_SUPPORT_WORKER_QUANTUM_RIG_H
#define GM_TEST_SUPPORT_WORKER_QUANTUM_RIG_H

#include "agent/device/device.h"
#include "agent/worker/memory/sigbus.h"
#include "agent/worker/queue/quantum.h"
#include "tests/support/worker/queue_client.h"
#include "tests/support/tap.h"

#define ROW 0u
#define MIB (UINT64_C(1) << 20)
#define KIB (UINT64_C(1) << 10)

struct counting {
	struct gm_backend_device dev;
	uint32_t runs;
	uint64_t elements;
	uint64_t largest; /* bytes of one run */
	uint64_t next;    /* element at which the next slice has to begin */
	bool gap;         /* one did not */
	int rc;
	struct hand_client *seen; /* completions at the last run: */
	uint32_t n_seen;
};

static inline int count_run(struct gm_backend_device *dev,
			    const struct gm_task *task, uint64_t first,
			    uint64_t count)
{
	struct counting *k = (struct counting *)dev;
	uint64_t bytes = count * gm_ops_dtype_bytes(task->dtype);

	k->runs++;
	k->elements += count;
	k->gap = k->gap || (first != 0 && first != k->next);
	k->next = first + count;
	if (bytes > k->largest)
		k->largest = bytes;
	if (k->seen)
		k->n_seen = hand_n_done(k->seen);
	return k->rc;
}

static const struct gm_backend counting_backend = { .name = "counting",
						    .run = count_run };

static struct gm_journal *journal;
static int journal_fd;
static struct gm_close_thread close_thread;

static inline struct gm_worker_session *serve(struct hand_client *c)
{
	int fds[GM_SESSION_FDS] = { c->queues, c->arena, dup(c->doorbell),
				    dup(c->socket[1]) };
	struct gm_wire wire = hand_attach(c, ROW);
	struct gm_worker_session *s;

	if (gm_session_map(&wire, fds, journal, -1, true, &s) < 0)
		exit(99);
	gm_session_take_over(s, c->incarnation);
	return s;
}

/* A turn on a machine that is fast enough for whole shares, whatever this one
 * is: what the clock makes of a share is gm_quantum_share()'s own test. */
static inline uint32_t fast_turn(struct gm_worker_session *s,
				 struct counting *k)
{
	s->share = GM_TURN_BYTES;
	return gm_quantum_serve(s, &k->dev);
}

static inline void stop(struct hand_client *c, struct gm_worker_session *s)
{
	gm_journal_close(s->owed);
	gm_session_unmap(s, &close_thread, free);
	hand_close(c, ROW);
}

static inline void turn_begin(void)
{
	journal = hand_share("test-journal", GM_JOURNAL_BYTES, &journal_fd);
	gm_close_thread_init(&close_thread);
	EQ(gm_sigbus_init(), 0);
}

static inline void turn_end(void)
{
	gm_close_thread_stop(&close_thread);
}

#endif

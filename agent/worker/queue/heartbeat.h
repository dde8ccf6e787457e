/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * heartbeat - publishes in the journal which call the worker is inside of, and
 * since when.
 */
#ifndef GM_WORKER_QUEUE_HEARTBEAT_H
#define GM_WORKER_QUEUE_HEARTBEAT_H

#include <stdint.h>

#include "agent/common/node_clock.h"
#include "shm/journal.h"

static inline uint64_t gm_now_ns(void)
{
	return gm_node_clock_now();
}

static inline uint64_t gm_beat_word(enum gm_worker_call call, uint64_t now_ns)
{
	return (uint64_t)call << 56 | (now_ns & ~(UINT64_C(0xff) << 56));
}

static inline void gm_beat_at(struct gm_journal *signs,
			      enum gm_worker_call call, uint64_t now_ns)
{
	gm_put(&signs->beat, gm_beat_word(call, now_ns));
}

static inline void gm_beat(struct gm_journal *signs, enum gm_worker_call call)
{
	gm_beat_at(signs, call, gm_now_ns());
}

#endif

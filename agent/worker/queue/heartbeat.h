/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * heartbeat - publishes in the journal which call the worker is inside of, and
 * since when.
 */
#ifndef GM_WORKER_QUEUE_HEARTBEAT_H
#define GM_WORKER_QUEUE_HEARTBEAT_H

#include <stdint.h>
#include <time.h>

#include "shm/journal.h"

/* CLOCK_MONOTONIC, in ns. */
static inline uint64_t gm_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
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

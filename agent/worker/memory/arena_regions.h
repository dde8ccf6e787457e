/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * arena_regions - the parts of a session's arena that the device reaches.
 *
 * Parts are the rows' ranges; an arena that is not cut so is one part.  What
 * the device reaches of them is in session->reached, where queue/decode.h looks
 * it up; the slow thread adds to it (control/async_op.h) as parts are named.
 *
 * Only of devices whose backend has reach: of others, n_reached is 0.
 */
#ifndef GM_WORKER_MEMORY_ARENA_REGIONS_H
#define GM_WORKER_MEMORY_ARENA_REGIONS_H

#include <stdint.h>

#include "agent/worker/queue/session.h"

/* Cut the arena; nothing of it is reached yet.  Returns 0 or -ENOMEM. */
int gm_reach_open(struct gm_worker_session *session);

/* The first part that the device does not reach of those in which the @bytes at
 * @memory lie, or n_reached if there is none.  Memory that is none of the
 * arena's, or NULL, is in none. */
uint32_t gm_reach_missing(const struct gm_worker_session *session,
			  const void *memory, uint64_t bytes);

#endif

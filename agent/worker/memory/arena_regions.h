/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * arena_regions - tracks the parts of a session's arena that the device has
 * mapped.
 *
 * A part is one row's range; an arena without such ranges is one part.
 * session->reached holds the mappings, where queue/decode.h looks them up.  The
 * slow thread adds a mapping (control/async_op.h) when an entry first names a
 * part.
 *
 * Used only with devices whose backend has reach.  With others, n_reached is 0.
 */
#ifndef GM_WORKER_MEMORY_ARENA_REGIONS_H
#define GM_WORKER_MEMORY_ARENA_REGIONS_H

#include <stdint.h>

#include "agent/worker/queue/session.h"

/* Split the arena into parts, none of which is mapped yet.  Returns 0 or
 * -ENOMEM. */
int gm_arena_regions_open(struct gm_worker_session *session);

/* First part without a mapping among those that contain the @bytes at @memory,
 * or n_reached if there is none.  Memory outside of the arena, or NULL, is in
 * no part. */
uint32_t gm_arena_regions_reach(const struct gm_worker_session *session,
				const void *memory, uint64_t bytes);

#endif

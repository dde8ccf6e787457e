/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/memory/arena_regions.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int gm_arena_regions_open(struct gm_worker_session *session)
{
	struct gm_worker_session *s = session;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t all = s->decoder.arena_bytes, each = s->range_bytes;

	if (all == 0)
		return 0;
	if (each == 0 || each % page || s->range_at % each || all % each)
		each = all;
	s->reached = calloc(all / each, sizeof(struct gm_region *));
	if (!s->reached)
		return -ENOMEM;
	s->n_reached = (uint32_t)(all / each);
	s->decoder.reached = s->reached;
	s->decoder.reached_each = each;
	return 0;
}

uint32_t gm_arena_regions_reach(const struct gm_worker_session *session,
				const void *memory, uint64_t bytes)
{
	const struct gm_worker_session *s = session;
	uint64_t at = (uintptr_t)memory - (uintptr_t)s->decoder.arena;

	if (!memory || bytes == 0 || at >= s->decoder.arena_bytes)
		return s->n_reached;
	for (uint64_t i = at / s->decoder.reached_each;
	     i <= (at + bytes - 1) / s->decoder.reached_each; i++)
		if (!s->reached[i])
			return (uint32_t)i;
	return s->n_reached;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spread - memory of one row's range whose parts lie on other rows' nodes.
 *
 * The kernel keeps a policy for each page of the arena.  A row's worker has set
 * that of the row's range; a spread allocation has policies of its own, and
 * takes its memory anew by them.  When it is freed, its memory is given back
 * and the range's policy holds again.
 */
#ifndef GM_LIB_SPREAD_H
#define GM_LIB_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

struct gm_spread; /* an allocation that is spread */
struct gpumap_session;

/* From this offset in the memory on it belongs to a row. */
struct gm_spread_part {
	uint64_t at;
	uint32_t row;
};

/* From here on allocations are spread; smaller ones lie with their first
 * row. */
#define GM_SPREAD_LEAST (UINT64_C(2) << 20)

/*
 * gm_spread_alloc - allocate in the range of the first part's row
 *
 * parts	in the order of their offsets, the first at 0
 *
 * Returns	as gpumap_alloc()
 */
int gm_spread_alloc(struct gpumap_session *session, uint64_t bytes,
		    const struct gm_spread_part *parts, uint32_t n,
		    void **ret_memory);

/* The allocation at this offset of the arena is freed: if it is spread, it has
 * no memory any more, and no policy of its own. */
void gm_spread_free(struct gpumap_session *session, uint64_t at);

/* Forget all of them: the arena goes. */
void gm_spread_drop_session(struct gpumap_session *session);

#endif

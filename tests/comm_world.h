/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * comm_world.h - the ranks of a group, all of them here.
 *
 * A place is an address less that of its rank's memory, which is followed by
 * bytes that nobody may write.
 */
#ifndef COMM_WORLD_H
#define COMM_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "agent/comm/comm.h"

#define RANKS  8u
#define MARGIN 64u

struct world {
	struct gm_comm_page *page;
	struct gm_comm comm[RANKS];
	struct gm_comm_call call[RANKS];
	struct gm_comm_ask ask[RANKS];
	int end[RANKS]; /* 0 while under way */
	char *memory[RANKS];
	uint64_t bytes; /* of each */
	uint32_t ranks;
	uint64_t spoils; /* bytes of what was given, once a rank has ended */
	bool is_read_only;
};

/* Buffers are named by their rank, plus 1. */
static inline void *reach(void *arg, uint32_t rank, struct gm_comm_place place,
			  uint64_t bytes, bool writes)
{
	const struct world *w = arg;

	if (place.buffer != rank + 1 || place.at > w->bytes ||
	    bytes > w->bytes - place.at || (writes && w->is_read_only))
		return NULL;
	return w->memory[rank] + place.at;
}

static inline void name_buffers(struct gm_comm_ask *ask, uint32_t rank)
{
	ask->send.buffer = ask->recv.buffer = rank + 1;
}

static inline void open_world(struct world *w, uint32_t ranks, uint64_t bytes)
{
	size_t page_bytes = gm_comm_page_bytes(ranks);

	*w = (struct world){ .ranks = ranks, .bytes = bytes };
	w->page = aligned_alloc(GM_LINE, page_bytes);
	memset((void *)w->page, 0, page_bytes);
	for (uint32_t r = 0; r < ranks; r++) {
		w->memory[r] = malloc(bytes + MARGIN);
		memset(w->memory[r], 0x5a, bytes + MARGIN);
		gm_comm_init(&w->comm[r], w->page, r, ranks);
		w->comm[r].reach = reach;
		w->comm[r].arg = w;
	}
}

static inline void close_world(struct world *w)
{
	for (uint32_t r = 0; r < w->ranks; r++)
		free(w->memory[r]);
	free(w->page);
}

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/comm_ranks.h"

void *reach(void *arg, uint32_t rank, struct gm_comm_place place,
	    uint64_t bytes, bool writes)
{
	const struct world *w = arg;

	if (place.buffer != rank + 1 || place.at > w->bytes ||
	    bytes > w->bytes - place.at || (writes && w->is_read_only))
		return NULL;
	return w->memory[rank] + place.at;
}

void name_buffers(struct gm_comm_ask *ask, uint32_t rank)
{
	ask->send.buffer = ask->recv.buffer = rank + 1;
}

void open_world(struct world *w, uint32_t ranks, uint64_t bytes)
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

void close_world(struct world *w)
{
	for (uint32_t r = 0; r < w->ranks; r++)
		free(w->memory[r]);
	free(w->page);
}

/* ---- turns --------------------------------------------------------------- */

uint32_t run(struct world *w, uint32_t who, uint64_t budget)
{
	uint32_t begun = 0, left = (uint32_t)__builtin_popcount(who);
	uint32_t idle = 0;
	bool told;

	for (uint32_t r = 0; r < w->ranks; r++)
		w->end[r] = 0;
	while (left > 0 && idle < 200 * RANKS) {
		uint32_t r = (uint32_t)dice(w->ranks);
		int rc;

		idle++;
		if (!(who >> r & 1) || w->end[r])
			continue;
		if (!(begun >> r & 1)) {
			name_buffers(&w->ask[r], r);
			gm_comm_begin(&w->comm[r], &w->ask[r], &w->call[r]);
			begun |= 1u << r;
			continue;
		}
		rc = gm_comm_step(&w->comm[r], &w->call[r], budget, &told);
		if (rc == -EAGAIN)
			continue;
		idle = 0;
		w->end[r] = rc;
		if (rc != 0 && w->spoils > 0)
			memset(w->memory[r] + w->ask[r].send.at, 0x77,
			       w->spoils);
		left -= rc != 0;
	}
	return left;
}

void ask_all(struct world *w, const struct gm_comm_ask *ask)
{
	for (uint32_t r = 0; r < w->ranks; r++)
		w->ask[r] = *ask;
}

bool all_ended(const struct world *w, int with)
{
	for (uint32_t r = 0; r < w->ranks; r++)
		if (w->end[r] != with)
			return false;
	return true;
}

void all_but_one(const struct gm_comm_ask *most, const struct gm_comm_ask *one,
		 int end)
{
	struct world w;

	for (uint32_t odd = 0; odd < 3; odd++) {
		open_world(&w, 3, 1 << 16);
		ask_all(&w, most);
		w.ask[odd] = *one;
		EQ(run(&w, 7, 4096), 0);
		OK(all_ended(&w, end));
		/* Nothing is broken: the next is right. */
		ask_all(&w, &(struct gm_comm_ask){ .op = GM_COMM_BARRIER });
		EQ(run(&w, 7, 4096), 0);
		OK(all_ended(&w, 1));
		close_world(&w);
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* heap: against a byte per unit, and freed units come back last. */

#include <errno.h>
#include <stdlib.h>

#include "agent/daemon/segment/block_alloc.h"
#include "tests/support/tap.h"

#define FIRST 100u
#define UNITS 1000u
#define END   (FIRST + UNITS)

static void bounds_are_kept(void)
{
	struct gm_heap heap;
	uint32_t unit = 7;

	EQ(gm_blocks_init(&heap, 0, END, 0), -EINVAL);
	EQ(gm_blocks_init(&heap, FIRST, FIRST, FIRST), -EINVAL);
	EQ(gm_blocks_init(&heap, FIRST, END, FIRST - 1), -EINVAL);
	EQ(gm_blocks_init(&heap, FIRST, END, END + 1), -EINVAL);
	if (EQ(gm_blocks_init(&heap, FIRST, END, END), 0) == false)
		return;
	EQ(gm_blocks_claim(&heap, FIRST - 1, 2), -EINVAL);
	EQ(gm_blocks_claim(&heap, END - 1, 2), -EINVAL);
	EQ(gm_blocks_claim(&heap, END, UINT32_MAX), -EINVAL);
	EQ(gm_blocks_claim(&heap, FIRST, 0), -EINVAL);
	EQ(gm_blocks_alloc(&heap, UNITS + 1, &unit), -ENOSPC);
	EQ(unit, 7);
	EQ(gm_blocks_alloc(&heap, UNITS, &unit), 0);
	EQ(unit, FIRST);
	EQ(heap.n_free, 0);
	EQ(gm_blocks_claim(&heap, END - 1, 1), -EEXIST);
	gm_blocks_free(&heap, FIRST, UNITS);
	EQ(heap.n_free, UNITS);
	gm_blocks_exit(&heap);
}

/* A block of one tenth is freed and one of the same size wanted, over and over:
 * each time every other unit of the heap has to go by first. */
static void freed_comes_back_last(void)
{
	uint32_t unit, before = 0, early = 0;
	struct gm_heap heap;

	if (!EQ(gm_blocks_init(&heap, FIRST, END, FIRST), 0))
		return;
	for (uint32_t i = 0; i < 100; i++) {
		if (gm_blocks_alloc(&heap, UNITS / 10, &unit) != 0 ||
		    unit != FIRST + i % 10 * (UNITS / 10))
			early++;
		if (before != 0)
			gm_blocks_free(&heap, before, UNITS / 10);
		before = unit;
	}
	EQ(early, 0);
	gm_blocks_exit(&heap);
}

/* The lowest gap at or after the rotor, else the lowest before it. */
static uint32_t expected(const char *used, uint32_t rotor, uint32_t n)
{
	for (int round = 0; round < 2; round++) {
		uint32_t from = round == 0 ? rotor : FIRST;
		uint32_t to = round == 0 ? END : rotor;

		for (uint32_t at = from; at < to; at++) {
			uint32_t k = 0;

			while (k < n && at + k < END && !used[at + k])
				k++;
			if (k == n)
				return at;
		}
	}
	return 0;
}

struct live {
	uint32_t unit, n;
};

static void random_use_is_as_a_slow_one(void)
{
	static char used[END];
	static struct live live[UNITS];
	uint32_t n_live = 0, wrong = 0, refused = 0, want, unit, n;
	struct gm_heap heap;

	if (!EQ(gm_blocks_init(&heap, FIRST, END, FIRST), 0))
		return;
	srandom(1);
	for (int step = 0; step < 200000; step++) {
		if (n_live > 0 && random() % 100 < 50) {
			uint32_t i = (uint32_t)random() % n_live;

			gm_blocks_free(&heap, live[i].unit, live[i].n);
			memset(used + live[i].unit, 0, live[i].n);
			live[i] = live[--n_live];
			continue;
		}
		n = 1 + (uint32_t)random() % (random() % 8 ? 40 : 200);
		want = expected(used, heap.rotor, n);
		unit = 0;
		if (gm_blocks_alloc(&heap, n, &unit) != 0)
			refused++;
		if (unit != want || (want != 0 && heap.rotor != want + n))
			wrong++;
		if (unit == 0)
			continue;
		memset(used + unit, 1, n);
		live[n_live++] = (struct live){ unit, n };
	}
	EQ(wrong, 0);
	OK(refused > 0);
	NOTE("%u of the requests found no gap", refused);
	gm_blocks_exit(&heap);
}

TAP_CASE()
{
	bounds_are_kept();
	freed_comes_back_last();
	random_use_is_as_a_slow_one();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* arena: what is taken never overlaps, what is given comes back whole. */

#include <errno.h>
#include <stdlib.h>

#include "lib/internal.h"
#include "tests/support/tap.h"

#define RANGE (UINT64_C(64) << 20)
#define KIB   UINT64_C(1024)
#define MIB   (UINT64_C(1024) * KIB)

static void the_first_place_that_fits_is_taken(void)
{
	struct gm_arena arena = { 0 };
	uint64_t a, b, c, again;

	EQ(gm_arena_init(&arena, 0, RANGE), 0);
	EQ(gm_arena_take(&arena, 1, &a), 0);
	EQ(a, 0);
	EQ(gm_arena_take(&arena, 65, &b), 0);
	EQ(b, 64);
	EQ(gm_arena_take(&arena, 64, &c), 0);
	EQ(c, 64 + 128);
	EQ(gm_arena_give(&arena, b), 0);
	EQ(gm_arena_take(&arena, 128, &again), 0);
	EQ(again, b);
	gm_arena_fini(&arena);
}

static void large_ones_start_on_blocks(void)
{
	struct gm_arena arena = { 0 };
	uint64_t small, large, next;

	EQ(gm_arena_init(&arena, 0, RANGE), 0);
	EQ(gm_arena_take(&arena, 64, &small), 0);
	EQ(gm_arena_take(&arena, 2 * MIB, &large), 0);
	EQ(large, 2 * MIB);
	/* The bytes that the alignment skipped are not lost. */
	EQ(gm_arena_take(&arena, 2 * MIB - 64, &next), 0);
	EQ(next, 64);
	/* No block has so much behind it, but a page has. */
	EQ(gm_arena_give(&arena, next), 0);
	EQ(gm_arena_give(&arena, large), 0);
	EQ(gm_arena_take(&arena, RANGE - 4096, &large), 0);
	EQ(large, 4096);
	gm_arena_fini(&arena);
}

/* Blocks are the memory's: a range may begin within one. */
static void blocks_are_counted_from_the_start_of_memory(void)
{
	struct gm_arena arena = { 0 };
	uint64_t large;

	EQ(gm_arena_init(&arena, 3 * RANGE + 12 * KIB, RANGE), 0);
	EQ(gm_arena_take(&arena, 2 * MIB, &large), 0);
	EQ(large, 2 * MIB - 12 * KIB);
	gm_arena_fini(&arena);
}

static void no_room_is_said_and_changes_nothing(void)
{
	struct gm_arena arena = { 0 };
	uint64_t at = 77, all;

	EQ(gm_arena_init(&arena, 0, RANGE), 0);
	EQ(gm_arena_take(&arena, RANGE + 1, &at), -ENOMEM);
	EQ(gm_arena_take(&arena, UINT64_MAX, &at), -ENOMEM);
	EQ(at, 77);
	EQ(gm_arena_take(&arena, RANGE, &all), 0);
	EQ(gm_arena_take(&arena, 1, &at), -ENOMEM);
	EQ(gm_arena_give(&arena, all), 0);
	EQ(gm_arena_take(&arena, RANGE, &all), 0);
	gm_arena_fini(&arena);
}

static void only_what_was_taken_is_given(void)
{
	struct gm_arena arena = { 0 };
	uint64_t a;

	EQ(gm_arena_init(&arena, 0, RANGE), 0);
	EQ(gm_arena_give(&arena, 0), -EINVAL);
	EQ(gm_arena_take(&arena, 4096, &a), 0);
	EQ(gm_arena_give(&arena, a + 64), -EINVAL);
	EQ(gm_arena_give(&arena, RANGE), -EINVAL);
	EQ(gm_arena_give(&arena, a), 0);
	EQ(gm_arena_give(&arena, a), -EINVAL);
	gm_arena_fini(&arena);
}

/* A fragmented range: every second block free, each of them too small. */
static void holes_that_are_too_small_are_passed_over(void)
{
	struct gm_arena arena = { 0 };
	uint64_t at[64], big;
	bool fits = true;

	EQ(gm_arena_init(&arena, 0, 64 * 4 * KIB + 8 * KIB), 0);
	for (int i = 0; i < 64; i++)
		fits &= gm_arena_take(&arena, 4 * KIB, &at[i]) == 0;
	for (int i = 0; i < 64; i += 2)
		fits &= gm_arena_give(&arena, at[i]) == 0;
	OK(fits);
	EQ(gm_arena_take(&arena, 8 * KIB, &big), 0);
	EQ(big, 64 * 4 * KIB);
	EQ(gm_arena_take(&arena, 8 * KIB, &big), -ENOMEM);
	EQ(gm_arena_give(&arena, at[1]), 0);
	EQ(gm_arena_take(&arena, 12 * KIB, &big), 0);
	EQ(big, 0);
	gm_arena_fini(&arena);
}

struct block {
	uint64_t at;
	uint64_t bytes; /* 0: not taken */
};

static bool overlap(const struct block *a, const struct block *b)
{
	return a->bytes != 0 && b->bytes != 0 && a->at < b->at + b->bytes &&
	       b->at < a->at + a->bytes;
}

static bool placed_well(const struct block *blocks, int n, int i)
{
	uint64_t align = blocks[i].bytes < 2 * MIB ? 64 : 4096;

	if (blocks[i].at % align != 0 || blocks[i].at > RANGE ||
	    blocks[i].bytes > RANGE - blocks[i].at)
		return false;
	for (int j = 0; j < n; j++)
		if (j != i && overlap(&blocks[i], &blocks[j]))
			return false;
	return true;
}

static void a_long_life_leaves_no_trace(void)
{
	struct block blocks[200] = { 0 };
	struct gm_arena arena = { 0 };
	unsigned int seed = 7;
	bool good = true;
	uint64_t all;

	EQ(gm_arena_init(&arena, 0, RANGE), 0);
	for (int round = 0; round < 20000; round++) {
		int i = rand_r(&seed) % 200;
		uint64_t bytes = (uint64_t)rand_r(&seed) % (512 * KIB) + 1;

		if (rand_r(&seed) % 16 == 0)
			bytes += 2 * MIB;
		if (blocks[i].bytes != 0) {
			good &= gm_arena_give(&arena, blocks[i].at) == 0;
			blocks[i].bytes = 0;
		} else if (gm_arena_take(&arena, bytes, &blocks[i].at) == 0) {
			blocks[i].bytes = bytes;
			good &= placed_well(blocks, 200, i);
		}
	}
	for (int i = 0; i < 200; i++)
		if (blocks[i].bytes != 0)
			good &= gm_arena_give(&arena, blocks[i].at) == 0;
	OK(good);
	EQ(gm_arena_take(&arena, RANGE, &all), 0);
	EQ(all, 0);
	gm_arena_fini(&arena);
}

TAP_CASE()
{
	the_first_place_that_fits_is_taken();
	large_ones_start_on_blocks();
	blocks_are_counted_from_the_start_of_memory();
	no_room_is_said_and_changes_nothing();
	only_what_was_taken_is_given();
	holes_that_are_too_small_are_passed_over();
	a_long_life_leaves_no_trace();
	return tap_done();
}

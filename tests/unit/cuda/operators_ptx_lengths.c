/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Every kernel of the operators' PTX at every length from none to past two
 * warps, from every byte of an element that a source and a result may begin at,
 * in place and not, and under the launches that it gets: nothing is left out at
 * the end, and nothing beside the elements is written or read.
 */

#include "tests/support/ptx_case.h"

#define LENGTHS 68u /* 0 to 67, all that a warp can leave of two */
#define FOUR    96u /* from here on a thread has four elements at once */
#define LINE    16u /* the widest access, FILL's */

struct tally {
	uint32_t runs, wrong;
};

static void one(struct trial *t, const char *name, struct tally *tally)
{
	tally->runs++;
	if (holds(t))
		return;
	tally->wrong++;
	if (tally->wrong < 4)
		NOTE("%s: %u elements at %u from %u, mask at %u, %u blocks "
		     "of %u",
		     name, (unsigned)t->n, t->shift, t->src_shift,
		     t->mask_shift, t->blocks, t->threads);
}

/* Where its memory may begin, to any access that it makes: an element is read
 * and written at once, or byte by byte. */
static uint32_t places(const struct trial *t)
{
	uint32_t from = ref_bytes(t->dtype), to = ref_bytes(out_dtype(t));

	if (t->op == GM_OPERATOR_FILL)
		return LINE;
	return from > to ? from : to;
}

/* Each length has each place of the result, and with them all places of the
 * source. */
static void lengths(uint32_t op, uint32_t dtype, uint32_t to, const char *name)
{
	struct tally tally = { 0 };

	for (uint32_t n = 0; n < LENGTHS; n++) {
		struct trial t = {
			.op = op,
			.dtype = dtype,
			.to = to,
			.n = n,
			.blocks = 1 + n % 2,
			.threads = 32,
			.numbers = op < GM_OPERATOR_SUM ? ANY : TAME,
		};
		uint32_t all = places(&t);

		for (; t.shift < all; t.shift++) {
			t.src_shift = (t.shift + n) % all;
			t.mask_shift = (t.shift + n / all) % all;
			one(&t, name, &tally);
		}
	}
	OK(tally.runs >= LENGTHS);
	tap_check(tally.wrong == 0, name, __FILE__, __LINE__);
}

/* Four at once, and what they leave: aligned, and not. */
static void by_fours(uint32_t op, uint32_t dtype, uint32_t to, const char *name)
{
	struct tally tally = { 0 };

	for (uint32_t n = FOUR; n < FOUR + LENGTHS; n++) {
		struct trial t = {
			.op = op,
			.dtype = dtype,
			.to = to,
			.n = n,
			.shift = n % 4 == 3,
			.src_shift = n % 4 == 2,
			.blocks = 1,
			.threads = 32,
			.numbers = op < GM_OPERATOR_SUM ? ANY : TAME,
		};

		one(&t, name, &tally);
	}
	tap_check(tally.wrong == 0, name, __FILE__, __LINE__);
}

/* The result where the source was: there is one place. */
static void lengths_in_place(uint32_t op, uint32_t dtype, uint32_t to,
			     const char *name)
{
	struct tally tally = { 0 };

	if (!may_be_in_place(op))
		return;
	for (uint32_t n = 0; n < LENGTHS; n++) {
		struct trial t = {
			.op = op,
			.dtype = dtype,
			.to = to,
			.n = n,
			.shift = n % LINE,
			.src_shift = n % LINE,
			.mask_shift = n / LINE,
			.blocks = 1,
			.threads = 32,
			.in_place = true,
		};

		one(&t, name, &tally);
	}
	tap_check(tally.wrong == 0, name, __FILE__, __LINE__);
}

/* As the backend launches it on a small card and on a large one: where a block
 * ends, and where a thread has a second element. */
static void launches(uint32_t op, uint32_t dtype, uint32_t to, const char *name)
{
	static const uint32_t around[] = { 256, 512, 1024, 2048 };
	struct tally tally = { 0 };

	for (uint32_t i = 0; i < 4 * 3 * 2; i++) {
		struct trial t = {
			.op = op,
			.dtype = dtype,
			.to = to,
			.n = around[i % 4] + i / 4 % 3 - 1,
			.shift = i % LINE,
			.src_shift = (i + 5) % LINE,
			.numbers = op < GM_OPERATOR_SUM ? ANY : TAME,
		};
		struct gm_worker_exec l =
			gm_operators_launch(op, t.n, i < 12 ? 1 : 132);

		t.blocks = l.blocks;
		t.threads = l.threads;
		one(&t, name, &tally);
	}
	tap_check(tally.wrong == 0, name, __FILE__, __LINE__);
}

TAP_CASE()
{
	for_each_kernel(lengths);
	for_each_kernel(by_fours);
	for_each_kernel(lengths_in_place);
	for_each_kernel(launches);
	return tap_done();
}

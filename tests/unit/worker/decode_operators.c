/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* decode: operators with different operands: casts, reductions, and masks,
 * which are the third operand and so in the second slot. */

#include <errno.h>

#include "gpumap.h"
#include "tests/support/worker/decode_arena.h"
#include "tests/support/tap.h"

static void casts_have_operands_of_two_sizes(void)
{
	static const struct {
		uint8_t dtype, to;
		uint64_t dst, src, n;
		int want;
	} casts[] = {
#define F16 GPUMAP_DTYPE_F16
#define F32 GPUMAP_DTYPE_F32
		{ F32, F16, 0, 2048, 512, 0 },
		{ F32, F16, 2048, 0, 512, 0 },
		{ F16, F32, 0, ARENA - 1024, 512, 0 },
		/* dst reaches out where src does not, and the reverse */
		{ F16, F32, ARENA - 1024, 0, 257, -ERANGE },
		{ F32, F16, 0, ARENA - 1024, 257, -ERANGE },
		{ F32, F16, ARENA - 514, 0, 257, 0 },
		/* each aligned to its own */
		{ F32, F16, 2, 1024, 16, 0 },
		{ F32, F16, 0, 1026, 16, -EINVAL },
		{ F16, F32, 2, 1024, 16, -EINVAL },
		/* the longer one overlaps */
		{ F16, F32, 0, 2048, 512, 0 },
		{ F16, F32, 0, 2046, 512, -EINVAL },
		{ F32, F16, 1024, 0, 512, -EINVAL },
		{ F32, F16, 0, 0, 512, -EINVAL },
		{ F32, F16, 0, 1024, UINT64_MAX / 4, -ERANGE },
		/* dtypes that it is not made for */
		{ F32, F32, 0, 2048, 16, -EINVAL },
		{ F32, 0, 0, 2048, 16, -EINVAL },
		{ F32, GPUMAP_DTYPE_F64, 0, 2048, 16, -EINVAL },
		{ GPUMAP_DTYPE_I32, F32, 0, 2048, 16, -EINVAL },
		{ F32, 255, 0, 2048, 16, -EINVAL },
#undef F16
#undef F32
	};
	struct gm_decoded_entry v;

	for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++) {
		struct gm_entry e =
			entry_of(GPUMAP_OP_CAST, casts[i].dtype, casts[i].dst,
				 casts[i].src, casts[i].n);

		e.to = casts[i].to;
		if (!EQ(check_it(&e, &v), casts[i].want))
			NOTE("cast %zu", i);
		if (casts[i].want != 0)
			continue;
		EQ(v.task.to, casts[i].to);
		EQ(v.bytes, 4 * casts[i].n);
		EQ(v.each, 4);
		/* No other operation has it. */
		e.op = GPUMAP_OP_COPY;
		EQ(check_it(&e, &v), -EPROTO);
	}
}

static void reductions_have_one_element(void)
{
	static const struct {
		uint8_t op, dtype;
		uint64_t dst, src, n;
		uint64_t dst_bytes;
		int want;
	} reductions[] = {
#define U8  GPUMAP_DTYPE_U8
#define F32 GPUMAP_DTYPE_F32
#define SUM GPUMAP_OP_SUM
#define MIN GPUMAP_OP_MIN
		{ SUM, U8, 8, 16, ARENA - 16, 8, 0 },
		{ SUM, U8, 8, 15, 1, 8, -EINVAL },
		{ SUM, U8, 8, 0, 8, 8, 0 },
		{ SUM, U8, 4, 16, 8, 8, -EINVAL }, /* aligned to a u64 */
		{ MIN, U8, 7, 16, 8, 1, 0 },
		{ SUM, F32, 4, 8, 1000, 4, 0 },
		{ SUM, F32, 16, 8, 1000, 4, -EINVAL }, /* inside of src */
		{ SUM, F32, 8, 8, 1, 4, -EINVAL },
		{ SUM, F32, ARENA - 4, 0, 1023, 4, 0 },
		{ SUM, F32, ARENA, 0, 1000, 4, -ERANGE },
		{ SUM, F32, 0, 8, 1023, 4, -ERANGE },
		{ SUM, F32, 0, 8, 0, 4, -EINVAL }, /* nothing */
		{ MIN, F32, 0, 8, UINT64_MAX, 4, -ERANGE },
		{ MIN, 99, 0, 8, 1, 4, -EINVAL },
#undef U8
#undef F32
#undef SUM
#undef MIN
	};
	struct gm_decoded_entry v;
	struct gm_task_sizes sizes;

	for (size_t i = 0; i < sizeof(reductions) / sizeof(reductions[0]);
	     i++) {
		struct gm_entry e =
			entry_of(reductions[i].op, reductions[i].dtype,
				 reductions[i].dst, reductions[i].src,
				 reductions[i].n);

		if (!EQ(check_it(&e, &v), reductions[i].want))
			NOTE("reduction %zu", i);
		if (reductions[i].want != 0)
			continue;
		EQ(gm_task_sizes(&v.task, &sizes), 0);
		EQ(sizes.dst, reductions[i].dst_bytes);
		EQ(v.bytes, sizes.src);
		EQ(v.each, sizes.src_each);
	}
}

/* ---- masks --------------------------------------------------------------- */

static const struct {
	uint8_t op, dtype;
	uint64_t dst, src, n, mask;
	uint32_t mask_n, first;
	int want;
} table[] = {
#define ADD  GPUMAP_OP_MASK_ADD
#define BOOL GPUMAP_OP_MASK_BOOL
#define F16  GPUMAP_DTYPE_F16
#define F32  GPUMAP_DTYPE_F32
	{ ADD, F32, 0, 1024, 256, 2048, 256, 0, 0 },
	{ ADD, F32, 0, 0, 256, 2048, 1, 0, 0 }, /* in place, of one element */
	{ BOOL, F16, 0, 0, 512, 1024, ARENA - 1024, 7, 0 },
	{ BOOL, F16, 0, 0, 512, 1025, ARENA - 1024, 7, -ERANGE },
	{ ADD, F16, 0, 0, 512, ARENA - 2, 1, 0, 0 },
	{ ADD, F16, 0, 0, 512, ARENA - 2, 2, 0, -ERANGE },
	{ ADD, F32, 0, 0, 1, 4, UINT32_MAX, 0, -ERANGE },
	{ ADD, F32, 0, 0, 1, UINT64_MAX - 3, 1, 0, -ERANGE },
	/* none, or a first one that it has not */
	{ ADD, F32, 0, 0, 256, 2048, 0, 0, -EINVAL },
	{ ADD, F32, 0, 0, 256, 2048, 4, 4, -EINVAL },
	{ ADD, F32, 0, 0, 256, 2048, 4, UINT32_MAX, -EINVAL },
	{ ADD, F32, 0, 0, 256, 2048, 4, 3, 0 },
	/* alignment is its own */
	{ ADD, F32, 0, 0, 256, 2050, 4, 0, -EINVAL },
	{ BOOL, F32, 0, 0, 256, 2049, 4, 0, 0 },
	/* it is not written */
	{ ADD, F32, 0, 1024, 256, 1020, 1, 0, -EINVAL },
	{ BOOL, F32, 0, 1024, 256, 1023, 4, 0, -EINVAL },
	{ BOOL, F32, 0, 1024, 256, 1024, 4, 0, 0 }, /* but src may be it */
	{ ADD, F32, 0, 1024, 256, 1024, 256, 0, 0 },
	{ ADD, GPUMAP_DTYPE_I32, 0, 0, 256, 2048, 1, 0, -EINVAL },
#undef ADD
#undef BOOL
#undef F16
#undef F32
};

static struct gm_entry mask_of(size_t i)
{
	struct gm_entry e = entry_of(table[i].op, table[i].dtype, table[i].dst,
				     table[i].src, table[i].n);

	e.flags = GM_ENTRY_MORE;
	e.value = table[i].mask_n | (uint64_t)table[i].first << 32;
	return e;
}

static void masks_are_checked(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct gm_entry e = mask_of(i);
		struct gm_more more = { .op = GM_OP_MORE,
					.third = table[i].mask };
		uint64_t words[GM_ENTRY_WORDS], second[GM_ENTRY_WORDS];
		struct gm_decoded_entry v;

		gm_entry_pack(&e, words);
		gm_more_pack(&more, second);
		if (!EQ(gm_decode_entry(&decoder, words, second, &v),
			table[i].want))
			NOTE("mask %zu", i);
		if (table[i].want != 0)
			continue;
		OK(v.task.mask == decoder.arena + table[i].mask);
		EQ(v.task.mask_n, table[i].mask_n);
		EQ(v.task.mask_first, table[i].first);
		/* No buffer has that handle. */
		more.third_buffer = UINT64_C(1) << 32;
		gm_more_pack(&more, second);
		EQ(gm_decode_entry(&decoder, words, second, &v), -ESTALE);
	}
}

static void a_mask_has_a_second_slot(void)
{
	struct gm_entry e = mask_of(0);
	uint64_t words[GM_ENTRY_WORDS];
	struct gm_decoded_entry v;

	e.flags = 0;
	gm_entry_pack(&e, words);
	EQ(gm_decode_entry(&decoder, words, NULL, &v), -EPROTO);
	STR(v.why, "a third operand without a second slot");
}

/* An operation without operands reads none. */
static void others_have_no_third_operand(void)
{
	struct gm_entry e = mask_of(0);
	struct gm_more more = { .op = GM_OP_MORE,
				.third = UINT64_MAX,
				.third_buffer = UINT64_MAX };
	uint64_t words[GM_ENTRY_WORDS], second[GM_ENTRY_WORDS];
	struct gm_decoded_entry v;

	e.op = GPUMAP_OP_COPY;
	gm_entry_pack(&e, words);
	gm_more_pack(&more, second);
	EQ(gm_decode_entry(&decoder, words, second, &v), 0);
	OK(v.task.mask == NULL && v.task.mask_n == 0);
}

TAP_CASE()
{
	casts_have_operands_of_two_sizes();
	reductions_have_one_element();
	masks_are_checked();
	a_mask_has_a_second_slot();
	others_have_no_third_operand();
	return tap_done();
}

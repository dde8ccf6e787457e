/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* scatter_combine: what tiles' results come to, in order. */

#include <math.h>
#include <string.h>

#include "gpumap.h"
#include "lib/scatter_combine.h"
#include "tests/support/tap.h"

static void sums_are_rounded_in_order(void)
{
	/* From the left, the small one is lost; from the right it would not
	 * be. */
	const float f32[] = { 1, 16777216, -16777216, 1 };
	const double f64[] = { 1, 9007199254740992., -9007199254740992., 1 };
	char odd[16];
	float one;
	double two;

	gm_scatter_combine(GPUMAP_OP_SUM, GPUMAP_DTYPE_F32, f32, 4, odd + 1);
	memcpy(&one, odd + 1, sizeof(one));
	OK(one == 1);
	one = 0;
	gm_scatter_combine(GPUMAP_OP_SUM, GPUMAP_DTYPE_F32, f32, 1, &one);
	OK(one == 1);
	gm_scatter_combine(GPUMAP_OP_SUM, GPUMAP_DTYPE_F64, f64, 4, &two);
	OK(two == 1);
	gm_scatter_combine(GPUMAP_OP_SUM, GPUMAP_DTYPE_F64, f64, 2, &two);
	OK(two == 9007199254740992.);
}

static void integers_wrap(void)
{
	const uint64_t u64[] = { UINT64_MAX, 3, 5 };
	const int64_t i64[] = { -7, 3, 2 };
	uint64_t sum = 0;

	gm_scatter_combine(GPUMAP_OP_SUM, GPUMAP_DTYPE_U64, u64, 3, &sum);
	EQ(sum, 7);
	gm_scatter_combine(GPUMAP_OP_SUM, GPUMAP_DTYPE_U64, i64, 3, &sum);
	EQ((int64_t)sum, -2);
}

static uint64_t best(uint32_t op, uint32_t dtype, const void *from, uint32_t n)
{
	uint64_t bits = 0;

	gm_scatter_combine(op, dtype, from, n, &bits);
	return bits;
}

static void the_least_and_the_greatest(void)
{
	const uint8_t u8[] = { 200, 7, 255, 9 };
	const uint16_t u16[] = { 0x8000, 7 };
	const uint32_t u32[] = { 0x80000000, 7 };
	const int32_t i32[] = { 5, -9, 7 };
	const int64_t i64[] = { 5, INT64_MIN, INT64_MAX };
	const uint64_t u64[] = { 5, UINT64_MAX, 1 };
	const double f64[] = { 2, -INFINITY, 3 };
	double least;
	uint64_t bits;

	EQ(best(GPUMAP_OP_MIN, GPUMAP_DTYPE_U8, u8, 4), 7);
	EQ(best(GPUMAP_OP_MAX, GPUMAP_DTYPE_U8, u8, 4), 255);
	EQ(best(GPUMAP_OP_MIN, GPUMAP_DTYPE_U16, u16, 2), 7);
	EQ(best(GPUMAP_OP_MAX, GPUMAP_DTYPE_U32, u32, 2), 0x80000000);
	EQ((int32_t)best(GPUMAP_OP_MIN, GPUMAP_DTYPE_I32, i32, 3), -9);
	EQ((int32_t)best(GPUMAP_OP_MAX, GPUMAP_DTYPE_I32, i32, 3), 7);
	EQ((int64_t)best(GPUMAP_OP_MIN, GPUMAP_DTYPE_I64, i64, 3), INT64_MIN);
	EQ((int64_t)best(GPUMAP_OP_MAX, GPUMAP_DTYPE_I64, i64, 3), INT64_MAX);
	OK(best(GPUMAP_OP_MAX, GPUMAP_DTYPE_U64, u64, 3) == UINT64_MAX);
	bits = best(GPUMAP_OP_MIN, GPUMAP_DTYPE_F64, f64, 3);
	memcpy(&least, &bits, sizeof(least));
	OK(least == -INFINITY);
}

/* Numbers for f32, bits for the halves: -2, -0, +0, 1.5, a NaN. */
static void floats_have_zeroes_and_nans(void)
{
	static const uint16_t halves[2][5] = {
		{ 0xc000, 0x8000, 0, 0x3e00, 0x7e00 },
		{ 0xc000, 0x8000, 0, 0x3fc0, 0x7fc0 },
	};
	static const uint32_t dtypes[] = { GPUMAP_DTYPE_F16,
					   GPUMAP_DTYPE_BF16 };
	const float zeroes[] = { 0, -0.f, 0 }, nan[] = { 1, -NAN, 0, NAN };
	uint32_t first;

	OK(best(GPUMAP_OP_MIN, GPUMAP_DTYPE_F32, zeroes, 3) == 0x80000000);
	OK(best(GPUMAP_OP_MAX, GPUMAP_DTYPE_F32, zeroes, 3) == 0);
	memcpy(&first, &nan[1], sizeof(first));
	OK(best(GPUMAP_OP_MIN, GPUMAP_DTYPE_F32, nan, 4) == first);
	OK(best(GPUMAP_OP_MAX, GPUMAP_DTYPE_F32, nan, 4) == first);
	for (int i = 0; i < 2; i++) {
		const uint16_t *h = halves[i];

		EQ(best(GPUMAP_OP_MIN, dtypes[i], h, 4), h[0]);
		EQ(best(GPUMAP_OP_MAX, dtypes[i], h, 4), h[3]);
		EQ(best(GPUMAP_OP_MIN, dtypes[i], h + 1, 3), h[1]);
		EQ(best(GPUMAP_OP_MAX, dtypes[i], h, 3), h[2]);
		EQ(best(GPUMAP_OP_MIN, dtypes[i], h, 5), h[4]);
		EQ(best(GPUMAP_OP_MAX, dtypes[i], h + 3, 2), h[4]);
	}
}

TAP_CASE()
{
	sums_are_rounded_in_order();
	integers_wrap();
	the_least_and_the_greatest();
	floats_have_zeroes_and_nans();
	return tap_done();
}

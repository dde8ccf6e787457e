/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Several ranks' elements into one's, against arithmetic of one element at a
 * time. */

#include "agent/comm/combine.h"
#include "tests/support/combine_ref.h"
#include "tests/support/tap.h"

#define RANKS  8u
#define MOST   2100u /* two blocks and more */
#define MARGIN 64u

static const uint32_t dtypes[] = { GPUMAP_DTYPE_U8,   GPUMAP_DTYPE_F16,
				   GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F32,
				   GPUMAP_DTYPE_I32,  GPUMAP_DTYPE_I64 };

/* ---- all of them --------------------------------------------------------- */

static char memory[RANKS + 1][8 * MOST + 2 * MARGIN];

/* Returns how many elements are wrong, or are written where they must not. */
static size_t wrong(const struct gm_host_kernels *k, uint32_t op,
		    uint32_t dtype, uint32_t ranks, size_t n, bool in_place)
{
	static char before[sizeof(memory[0])], after[sizeof(memory[0])];
	uint32_t own = in_place ? ranks / 2 : RANKS;
	const void *src[RANKS];
	uint32_t shift = (uint32_t)dice(MARGIN);
	size_t bad = 0;

	for (uint32_t r = 0; r < ranks; r++) {
		src[r] = memory[r] + shift;
		throw_numbers(memory[r] + shift, n, dtype,
			      op == GM_COMBINE_MIN || op == GM_COMBINE_MAX
				      ? ANY
				      : ONE_HARD);
	}
	memcpy(before, memory[own], sizeof(before));
	gm_combine(&(struct gm_combination){ k, op, dtype, src, ranks },
		   memory[own] + shift, n);
	memcpy(after, memory[own], sizeof(after));
	memcpy(memory[own], before, sizeof(before));
	for (size_t i = 0; i < n; i++) {
		uint64_t want = want_element(op, dtype, src, ranks, i);
		char bits[8];

		ref_store(bits, 0, dtype, want);
		bad += !ref_same(dtype, ref_load(bits, 0, dtype),
				 ref_load(after + shift, i, dtype));
	}
	memcpy(before + shift, after + shift, n * ref_bytes(dtype));
	return bad + (memcmp(before, after, sizeof(after)) != 0);
}

static void every_length(const struct gm_host_kernels *k, uint32_t op,
			 uint32_t dtype)
{
	static const size_t sizes[] = { 0,  1,  3,    7,    8,    9,    31,
					32, 33, 1023, 1024, 1025, 2048, MOST };
	size_t bad = 0;

	for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			bad += wrong(k, op, dtype, ranks, sizes[i], true);
			bad += wrong(k, op, dtype, ranks, sizes[i], false);
		}
	}
	if (!EQ(bad, 0))
		NOTE("%s: operation %u, dtype %u", k->name, op, dtype);
}

/* The average of one element of each source. */
static void average(const struct gm_host_kernels *k, uint32_t dtype,
		    const void *const *src, uint32_t n_src, void *dst)
{
	gm_combine(&(struct gm_combination){ k, GM_COMBINE_AVERAGE, dtype, src,
					     n_src },
		   dst, 1);
}

/* An average keeps the bits that a wrapping sum would lose. */
static void averages_are_exact(const struct gm_host_kernels *k)
{
	int64_t large[2] = { INT64_MAX, INT64_MAX - 2 }, got = 0;
	uint8_t small[3] = { 255, 255, 254 }, mean = 0;
	int32_t below[2] = { -3, -4 }, cut = 0;
	const void *of_large[] = { &large[0], &large[1] };
	const void *of_small[] = { &small[0], &small[1], &small[2] };
	const void *of_below[] = { &below[0], &below[1] };

	average(k, GPUMAP_DTYPE_I64, of_large, 2, &got);
	EQ(got, INT64_MAX - 1);
	average(k, GPUMAP_DTYPE_U8, of_small, 3, &mean);
	EQ(mean, 254);
	average(k, GPUMAP_DTYPE_I32, of_below, 2, &cut);
	EQ(cut, -3);
}

static void what_there_is(void)
{
	OK(!gm_combine_knows(GM_COMBINE_AVERAGE + 1, GPUMAP_DTYPE_F32));
	OK(!gm_combine_knows(GM_COMBINE_SUM, GPUMAP_DTYPE_F64));
	OK(!gm_combine_knows(GM_COMBINE_SUM, GPUMAP_DTYPE_U64 + 1));
	OK(!gm_combine_knows(GM_COMBINE_SUM, UINT32_MAX));
	OK(gm_combine_knows(GM_COMBINE_AVERAGE, GPUMAP_DTYPE_U8));
}

TAP_CASE()
{
	for (int i = 0; gm_host_kernels_all[i]; i++) {
		const struct gm_host_kernels *k = gm_host_kernels_all[i];

		if (!k->usable()) {
			SKIP(1, "this CPU has not these vectors");
			continue;
		}
		NOTE("%s", k->name);
		for (size_t d = 0; d < sizeof(dtypes) / sizeof(*dtypes); d++)
			for (uint32_t op = 0; op <= GM_COMBINE_AVERAGE; op++)
				every_length(k, op, dtypes[d]);
		averages_are_exact(k);
	}
	what_there_is();
	return tap_done();
}

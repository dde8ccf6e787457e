/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Floats that integers compute, beside the processor's. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define u64     uint64_t
#define U64(x)  ((uint64_t)(x))
#define INT(x)  ((int)(x))
#define UINT(x) ((uint)(x))
#define FN      static
#include "agent/device/floats.k"

#define TRIES 1000000

/* Zeros, numbers beside powers of two, subnormals, infinities and NaNs come as
 * often as others. */
static u64 some_bits(uint p)
{
	u64 some = dice(ONE << 32) << 32 | dice(ONE << 32);

	some &= SIGN(p) | (SIGN(p) - ONE);

	switch (dice(6)) {
	case 0:
		return some & (SIGN(p) | INF(p));
	case 1:
		return (some & (SIGN(p) | INF(p))) | dice(4);
	case 2:
		return some & ~INF(p);
	case 3:
		return some | INF(p);
	case 4: /* near to 1, so that many bits meet */
		return (some & ~INF(p)) | ((U64(BIAS(p)) + dice(5)) << p);
	default:
		return some;
	}
}

static u64 by_processor(u64 x, u64 y, uint p, bool is_sum)
{
	uint32_t half[2] = { (uint32_t)x, (uint32_t)y };
	volatile float f[2];
	volatile double d[2];
	float f_result;
	double d_result;
	uint32_t f_bits;
	u64 d_bits;

	memcpy((void *)(uintptr_t)&f, half, sizeof(f));
	memcpy((void *)(uintptr_t)&d[0], &x, sizeof(x));
	memcpy((void *)(uintptr_t)&d[1], &y, sizeof(y));
	f_result = is_sum ? f[0] + f[1] : f[0] * f[1];
	d_result = is_sum ? d[0] + d[1] : d[0] * d[1];
	memcpy(&f_bits, &f_result, sizeof(f_bits));
	memcpy(&d_bits, &d_result, sizeof(d_bits));
	return p == 23 ? f_bits : d_bits;
}

static void results_are_the_processors(uint p, bool is_sum)
{
	u64 low = SIGN(p) - ONE;
	uint64_t failed = 0;

	for (int i = 0; i < TRIES; i++) {
		u64 x = some_bits(p), y = dice(8) ? some_bits(p) : x ^ SIGN(p);
		u64 want = by_processor(x, y, p, is_sum);
		u64 got = is_sum ? sum_of(x, y, p) : product_of(x, y, p);

		if (got == want ||
		    ((got & low) > INF(p) && (want & low) > INF(p)))
			continue;
		if (failed++ < 10)
			NOTE("%#jx and %#jx: %#jx, not %#jx", (uintmax_t)x,
			     (uintmax_t)y, (uintmax_t)got, (uintmax_t)want);
	}
	EQ(failed, 0);
}

TAP_CASE()
{
	for (int i = 0; i < 4; i++)
		results_are_the_processors(i & 1 ? 23 : 52, i & 2);
	return tap_done();
}

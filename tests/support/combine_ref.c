/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/combine_ref.h"

bool is_float(uint32_t dtype)
{
	return dtype == GPUMAP_DTYPE_F16 || dtype == GPUMAP_DTYPE_BF16 ||
	       dtype == GPUMAP_DTYPE_F32;
}

uint64_t as(uint32_t from, uint32_t to, uint64_t bits)
{
	uint64_t src = 0, dst = 0;
	struct ref_args args = { .dst = &dst, .src = &src, .n = 1 };

	if (from == to)
		return bits;
	ref_store(&src, 0, from, bits);
	ref_run(GM_OPERATOR_CAST, from, to, &args);
	return ref_load(&dst, 0, to);
}

float get_float(uint32_t dtype, const void *src, size_t i)
{
	uint32_t bits =
		(uint32_t)as(dtype, GPUMAP_DTYPE_F32, ref_load(src, i, dtype));
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static float on_floats(uint32_t op, float a, float b)
{
	switch (op) {
	case GPUMAP_REDUCE_PRODUCT:
		return a * b;
	case GPUMAP_REDUCE_MIN:
		if (isnan(a) || isnan(b))
			return NAN;
		return a < b || (a == b && signbit(a)) ? a : b;
	case GPUMAP_REDUCE_MAX:
		if (isnan(a) || isnan(b))
			return NAN;
		return a > b || (a == b && !signbit(a)) ? a : b;
	default:
		return a + b;
	}
}

static uint64_t want_float(uint32_t op, uint32_t dtype, const void *const *src,
			   uint32_t ranks, size_t i)
{
	float want = get_float(dtype, src[0], i);
	uint32_t bits;

	for (uint32_t r = 1; r < ranks; r++)
		want = on_floats(op, want, get_float(dtype, src[r], i));
	if (op == GPUMAP_REDUCE_AVERAGE)
		want /= (float)ranks;
	memcpy(&bits, &want, sizeof(bits));
	return as(GPUMAP_DTYPE_F32, dtype, bits);
}

int64_t get_integer(uint32_t dtype, const void *src, size_t i)
{
	uint64_t bits = ref_load(src, i, dtype);

	return dtype == GPUMAP_DTYPE_I32 ? (int32_t)bits : (int64_t)bits;
}

static uint64_t want_integer(uint32_t op, uint32_t dtype,
			     const void *const *src, uint32_t ranks, size_t i)
{
	int64_t want = get_integer(dtype, src[0], i);
	__extension__ __int128 sum = want;

	for (uint32_t r = 1; r < ranks; r++) {
		int64_t x = get_integer(dtype, src[r], i);

		sum += x;
		if (op == GPUMAP_REDUCE_SUM)
			want = (int64_t)((uint64_t)want + (uint64_t)x);
		else if (op == GPUMAP_REDUCE_PRODUCT)
			want = (int64_t)((uint64_t)want * (uint64_t)x);
		else if (op == GPUMAP_REDUCE_MIN)
			want = x < want ? x : want;
		else if (op == GPUMAP_REDUCE_MAX)
			want = x > want ? x : want;
	}
	if (op == GPUMAP_REDUCE_AVERAGE)
		want = (int64_t)(sum / (int)ranks);
	return (uint64_t)want;
}

uint64_t want_element(uint32_t op, uint32_t dtype, const void *const *src,
		      uint32_t ranks, size_t i)
{
	return is_float(dtype) ? want_float(op, dtype, src, ranks, i)
			       : want_integer(op, dtype, src, ranks, i);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/scatter_combine.h"

#include <stdbool.h>
#include <string.h>

#include "lib/internal.h"

/* The bits of infinity, 0 for a dtype that is no float. */
static uint64_t infinity_of(uint32_t dtype)
{
	switch (dtype) {
	case GPUMAP_DTYPE_F16:
		return 0x7c00;
	case GPUMAP_DTYPE_BF16:
		return 0x7f80;
	case GPUMAP_DTYPE_F32:
		return 0x7f800000;
	case GPUMAP_DTYPE_F64:
		return UINT64_C(0x7ff0000000000000);
	default:
		return 0;
	}
}

static bool is_signed(uint32_t dtype)
{
	return dtype == GPUMAP_DTYPE_I32 || dtype == GPUMAP_DTYPE_I64;
}

/* The bits of one element, in the low end: little-endian, as everything
 * here. */
static uint64_t load(const void *from, uint32_t i, uint32_t bytes)
{
	uint64_t bits = 0;

	memcpy(&bits, (const char *)from + (uint64_t)i * bytes, bytes);
	return bits;
}

/* ---- sums ---------------------------------------------------------------- */

static void sum_f32(const void *from, uint32_t n, void *ret_one)
{
	const float *at = from;
	float sum = at[0];

	for (uint32_t i = 1; i < n; i++)
		sum += at[i];
	memcpy(ret_one, &sum, sizeof(sum));
}

static void sum_f64(const void *from, uint32_t n, void *ret_one)
{
	const double *at = from;
	double sum = at[0];

	for (uint32_t i = 1; i < n; i++)
		sum += at[i];
	memcpy(ret_one, &sum, sizeof(sum));
}

static void sum_integers(const void *from, uint32_t n, void *ret_one)
{
	const uint64_t *at = from;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += at[i];
	memcpy(ret_one, &sum, sizeof(sum));
}

/* ---- the least and the greatest ------------------------------------------ */

/* A key that orders values: of two that are no NaN, the lesser has the lesser
 * key. */
static uint64_t key_of(uint64_t bits, uint32_t dtype, uint32_t bytes)
{
	uint64_t sign = UINT64_C(1) << (8 * bytes - 1);

	if (infinity_of(dtype) != 0)
		return (bits & sign) != 0 ? ~bits & (sign | (sign - 1))
					  : bits | sign;
	return is_signed(dtype) ? bits ^ sign : bits;
}

static bool is_nan(uint64_t bits, uint32_t dtype, uint32_t bytes)
{
	uint64_t infinity = infinity_of(dtype);
	uint64_t sign = UINT64_C(1) << (8 * bytes - 1);

	return infinity != 0 && (bits & ~sign) > infinity;
}

static void find_best(uint32_t op, uint32_t dtype, const void *from, uint32_t n,
		      void *ret_one)
{
	uint32_t bytes = gm_ops_dtype_bytes(dtype);
	uint64_t best = load(from, 0, bytes);

	for (uint32_t i = 1; i < n && !is_nan(best, dtype, bytes); i++) {
		uint64_t bits = load(from, i, bytes);
		uint64_t ours = key_of(best, dtype, bytes);
		uint64_t its = key_of(bits, dtype, bytes);

		if (is_nan(bits, dtype, bytes) ||
		    (op == GPUMAP_OP_MIN ? its < ours : its > ours))
			best = bits;
	}
	memcpy(ret_one, &best, bytes);
}

void gm_scatter_combine(uint32_t op, uint32_t dtype, const void *from,
			uint32_t n, void *ret_one)
{
	if (op != GPUMAP_OP_SUM)
		find_best(op, dtype, from, n, ret_one);
	else if (dtype == GPUMAP_DTYPE_F32)
		sum_f32(from, n, ret_one);
	else if (dtype == GPUMAP_DTYPE_F64)
		sum_f64(from, n, ret_one);
	else
		sum_integers(from, n, ret_one);
}

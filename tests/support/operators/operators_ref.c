/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/operators/operators_ref.h"

#include <math.h>
#include <string.h>

#include "agent/cuda/operators.h"
#include "gpumap.h"
#include "shm/ops.h"

#define LANES 32u

uint32_t ref_result(uint32_t op, uint32_t dtype)
{
	return op == GM_OPERATOR_SUM ? gm_ops_result(GPUMAP_OP_SUM, dtype, 0)
				     : dtype;
}

size_t ref_bytes(uint32_t dtype)
{
	switch (dtype) {
	case GPUMAP_DTYPE_U8:
		return 1;
	case GPUMAP_DTYPE_F16:
	case GPUMAP_DTYPE_BF16:
	case GPUMAP_DTYPE_U16:
		return 2;
	case GPUMAP_DTYPE_F32:
	case GPUMAP_DTYPE_I32:
	case GPUMAP_DTYPE_U32:
		return 4;
	default:
		return 8;
	}
}

uint64_t ref_load(const void *from, uint64_t i, uint32_t dtype)
{
	const unsigned char *bytes = from;
	size_t size = ref_bytes(dtype);
	uint64_t bits = 0;

	for (size_t b = size; b-- > 0;)
		bits = bits << 8 | bytes[i * size + b];
	return bits;
}

void ref_store(void *to, uint64_t i, uint32_t dtype, uint64_t bits)
{
	unsigned char *bytes = to;
	size_t size = ref_bytes(dtype);

	for (size_t b = 0; b < size; b++)
		bytes[i * size + b] = (unsigned char)(bits >> 8 * b);
}

/* ---- floats of 16 and 32 bits ------------------------------------------- */

static float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint32_t bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(f));
	return bits;
}

static double double_of(uint64_t bits)
{
	double f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint64_t bits_of_double(double f)
{
	uint64_t bits;

	memcpy(&bits, &f, sizeof(f));
	return bits;
}

/* By shifting bits: a subnormal is moved up until it has a leading one. */
static float from_half(uint32_t h)
{
	uint32_t sign = (h & 0x8000) << 16, mantissa = h & 0x3ff;
	uint32_t exponent = h >> 10 & 31;

	if (exponent == 31)
		return float_of(sign | 0x7f800000 | mantissa << 13);
	if (exponent == 0) {
		if (!mantissa)
			return float_of(sign);
		exponent = 1;
		while (!(mantissa & 0x400)) {
			mantissa <<= 1;
			exponent--;
		}
		mantissa &= 0x3ff;
	}
	return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* Drop the low bits, to the nearest, ties to even. */
static uint32_t drop(uint32_t bits, uint32_t n)
{
	uint32_t half = UINT32_C(1) << (n - 1);
	uint32_t rest = bits & (2 * half - 1);

	bits >>= n;
	return bits + (rest > half || (rest == half && (bits & 1)));
}

static uint32_t to_half(float f)
{
	uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000;
	int32_t exponent = (int32_t)(bits >> 23 & 255) - 112;
	uint32_t mantissa = bits & 0x7fffff;

	if (isnan(f))
		return sign | 0x7e00;
	if (exponent >= 31)
		return sign | 0x7c00;
	/* A carry out of the mantissa goes into the exponent, as it should. */
	if (exponent > 0)
		return sign | drop((uint32_t)exponent << 23 | mantissa, 13);
	if (exponent < -10)
		return sign;
	return sign | drop(mantissa | 0x800000, (uint32_t)(14 - exponent));
}

static uint32_t to_bfloat(float f)
{
	uint32_t bits = bits_of(f);

	return isnan(f) ? bits >> 16 | 0x40 : drop(bits, 16);
}

/* ---- elements as values ------------------------------------------------- */

static float widen(uint32_t dtype, uint64_t bits)
{
	switch (dtype) {
	case GPUMAP_DTYPE_F16:
		return from_half((uint32_t)bits);
	case GPUMAP_DTYPE_BF16:
		return float_of((uint32_t)bits << 16);
	default:
		return float_of((uint32_t)bits);
	}
}

static uint64_t narrow(uint32_t dtype, float f)
{
	switch (dtype) {
	case GPUMAP_DTYPE_F16:
		return to_half(f);
	case GPUMAP_DTYPE_BF16:
		return to_bfloat(f);
	default:
		return bits_of(f);
	}
}

static bool is_float(uint32_t dtype)
{
	return dtype == GPUMAP_DTYPE_F16 || dtype == GPUMAP_DTYPE_BF16 ||
	       dtype == GPUMAP_DTYPE_F32 || dtype == GPUMAP_DTYPE_F64;
}

static bool is_nan(uint32_t dtype, uint64_t bits)
{
	if (!is_float(dtype))
		return false;
	return dtype == GPUMAP_DTYPE_F64 ? isnan(double_of(bits))
					 : isnan(widen(dtype, bits));
}

bool ref_same(uint32_t dtype, uint64_t a, uint64_t b)
{
	return a == b || (is_nan(dtype, a) && is_nan(dtype, b));
}

/* volatile: each product and each sum is rounded, whatever the compiler. */
static uint64_t multiply(uint32_t dtype, double alpha, uint64_t x)
{
	if (dtype == GPUMAP_DTYPE_F64) {
		volatile double p = alpha * double_of(x);

		return bits_of_double(p);
	} else {
		volatile float p = (float)alpha * widen(dtype, x);

		return bits_of(p);
	}
}

/* A value of multiply()'s to an element, rounded to an element. */
static uint64_t add(uint32_t dtype, uint64_t element, uint64_t value)
{
	if (dtype == GPUMAP_DTYPE_F64) {
		volatile double s = double_of(element) + double_of(value);

		return bits_of_double(s);
	} else {
		volatile float s =
			widen(dtype, element) + float_of((uint32_t)value);

		return narrow(dtype, s);
	}
}

static uint64_t minus_infinity(uint32_t dtype)
{
	return dtype == GPUMAP_DTYPE_F64 ? bits_of_double(-INFINITY)
					 : narrow(dtype, -INFINITY);
}

static uint64_t rounded(uint32_t dtype, uint64_t value)
{
	return dtype == GPUMAP_DTYPE_F64
		       ? value
		       : narrow(dtype, float_of((uint32_t)value));
}

static uint64_t widened(uint32_t dtype, uint64_t bits)
{
	return dtype == GPUMAP_DTYPE_F64 ? bits : bits_of(widen(dtype, bits));
}

/* ---- element by element ------------------------------------------------- */

static uint64_t element(uint32_t op, uint32_t dtype, uint32_t to,
			const struct ref_args *a, uint64_t i)
{
	uint64_t x = ref_load(a->src, i, dtype), j;

	switch (op) {
	case GM_OPERATOR_SCALE:
		return rounded(dtype, multiply(dtype, a->alpha, x));
	case GM_OPERATOR_AXPY:
		return add(dtype, ref_load(a->dst, i, dtype),
			   multiply(dtype, a->alpha, x));
	case GM_OPERATOR_CAST:
		return narrow(to, widen(dtype, x));
	case GM_OPERATOR_MASK_ADD:
		j = (a->at + i) % a->m;
		return add(dtype, x,
			   widened(dtype, ref_load(a->mask, j, dtype)));
	default:
		j = (a->at + i) % a->m;
		return ref_load(a->mask, j, GPUMAP_DTYPE_U8)
			       ? minus_infinity(dtype)
			       : x;
	}
}

static void fill(const struct ref_args *a)
{
	unsigned char *dst = a->dst;

	for (uint64_t i = 0; i < a->n; i++)
		dst[i] = (unsigned char)(a->pattern >> 8 * (i % 8));
}

/* ---- reductions --------------------------------------------------------- */

static uint64_t signed_of(uint32_t dtype, uint64_t bits)
{
	return dtype == GPUMAP_DTYPE_I32 ? (uint64_t)(int32_t)bits : bits;
}

/* The extreme of two accumulated values. */
static uint64_t sum_of(uint32_t dtype, uint64_t a, uint64_t b)
{
	uint32_t result = ref_result(GM_OPERATOR_SUM, dtype);

	return is_float(result) ? add(result, a, b) : a + b;
}

static bool less(uint32_t dtype, uint64_t a, uint64_t b)
{
	double x, y;

	if (dtype == GPUMAP_DTYPE_I32 || dtype == GPUMAP_DTYPE_I64)
		return (int64_t)signed_of(dtype, a) <
		       (int64_t)signed_of(dtype, b);
	if (!is_float(dtype))
		return a < b;
	x = dtype == GPUMAP_DTYPE_F64 ? double_of(a) : widen(dtype, a);
	y = dtype == GPUMAP_DTYPE_F64 ? double_of(b) : widen(dtype, b);
	return x < y || (x == y && signbit(x) && !signbit(y));
}

static uint64_t extreme_of(uint32_t op, uint32_t dtype, uint64_t a, uint64_t b)
{
	if (is_nan(dtype, a) || is_nan(dtype, b))
		return is_nan(dtype, a) ? a : b;
	if (op == GM_OPERATOR_MIN)
		return less(dtype, b, a) ? b : a;
	return less(dtype, a, b) ? b : a;
}

static uint64_t sum_chunk(uint32_t dtype, const void *src, uint64_t from,
			  uint64_t to)
{
	uint64_t lane[LANES] = { 0 }, other[LANES]; /* 0 is also 0.0 */

	for (uint64_t i = from; i < to; i++) {
		uint64_t x = ref_load(src, i, dtype);
		uint64_t *sum = &lane[(i - from) % LANES];

		x = is_float(dtype) ? widened(dtype, x) : signed_of(dtype, x);
		*sum = sum_of(dtype, *sum, x);
	}
	for (uint32_t d = LANES / 2; d > 0; d /= 2) {
		memcpy(other, lane, sizeof(lane));
		for (uint32_t l = 0; l < LANES; l++)
			lane[l] = sum_of(dtype, lane[l], other[l ^ d]);
	}
	return lane[0];
}

static uint64_t extreme_chunk(uint32_t op, uint32_t dtype, const void *src,
			      uint64_t from, uint64_t to)
{
	uint64_t best = ref_load(src, from, dtype);

	for (uint64_t i = from + 1; i < to; i++)
		best = extreme_of(op, dtype, best, ref_load(src, i, dtype));
	return best;
}

static void reduce(uint32_t op, uint32_t dtype, const struct ref_args *a)
{
	for (uint64_t c = 0; c < gm_operators_chunks(a->n); c++) {
		uint64_t from = c * GM_OPERATOR_CHUNK;
		uint64_t to = from + GM_OPERATOR_CHUNK;

		if (to > a->n)
			to = a->n;
		ref_store(a->dst, c, ref_result(op, dtype),
			  op == GM_OPERATOR_SUM
				  ? sum_chunk(dtype, a->src, from, to)
				  : extreme_chunk(op, dtype, a->src, from, to));
	}
}

void ref_run(uint32_t op, uint32_t dtype, uint32_t to,
	     const struct ref_args *args)
{
	uint32_t out = op == GM_OPERATOR_CAST ? to : dtype;

	if (op == GM_OPERATOR_FILL) {
		fill(args);
		return;
	}
	if (op >= GM_OPERATOR_SUM) {
		reduce(op, dtype, args);
		return;
	}
	for (uint64_t i = 0; i < args->n; i++)
		ref_store(args->dst, i, out, element(op, dtype, to, args, i));
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/comm/combine.h"

#include <string.h>

#include "gpumap.h"

/* The block that is computed at once: it stays in the first cache. */
#define BLOCK 1024u

/* Elements as they are computed with. */
enum lane { LANE_F32, LANE_I32, LANE_I64, LANE_U8, N_LANES };

union block {
	float f32[BLOCK];
	int32_t i32[BLOCK];
	int64_t i64[BLOCK];
	uint8_t u8[BLOCK];
};

typedef float f32v __attribute__((vector_size(32), may_alias, aligned(1)));
typedef int32_t i32v __attribute__((vector_size(32), may_alias, aligned(1)));
typedef uint32_t u32v __attribute__((vector_size(32), may_alias, aligned(1)));
typedef int64_t i64v __attribute__((vector_size(32), may_alias, aligned(1)));
typedef uint64_t u64v __attribute__((vector_size(32), may_alias, aligned(1)));
typedef uint8_t u8v __attribute__((vector_size(32), may_alias, aligned(1)));

static const uint8_t lane_bytes[N_LANES] = {
	[LANE_F32] = 4,
	[LANE_I32] = 4,
	[LANE_I64] = 8,
	[LANE_U8] = 1,
};

static const struct {
	uint8_t bytes; /* 0: not known here */
	uint8_t lane;
} kinds[GM_HOST_DTYPES] = {
	[GPUMAP_DTYPE_U8] = { 1, LANE_U8 },
	[GPUMAP_DTYPE_F16] = { 2, LANE_F32 },
	[GPUMAP_DTYPE_BF16] = { 2, LANE_F32 },
	[GPUMAP_DTYPE_F32] = { 4, LANE_F32 },
	[GPUMAP_DTYPE_I32] = { 4, LANE_I32 },
	[GPUMAP_DTYPE_I64] = { 8, LANE_I64 },
};

/* ---- loops --------------------------------------------------------------- */

/* A whole number of vectors, of which the last may have some elements that mean
 * nothing. */
#define LOOP(name, vec, value)                                          \
	static void name(void *acc, const void *src, size_t bytes)      \
	{                                                               \
		for (size_t at = 0; at < bytes; at += sizeof(vec)) {    \
			vec *to = (vec *)((char *)acc + at);            \
			vec a = *to;                                    \
			vec b = *(const vec *)((const char *)src + at); \
                                                                        \
			*to = (value);                                  \
		}                                                       \
	}

/* All ones where the condition holds, zeroes elsewhere. */
#define PICK(vec, is, a, b) (((vec)(is) & (a)) | (~(vec)(is) & (b)))

LOOP(add_f32, f32v, a + b)
LOOP(add_i32, u32v, a + b)
LOOP(add_i64, u64v, a + b)
LOOP(add_u8, u8v, a + b)
LOOP(mul_f32, f32v, a *b)
LOOP(mul_i32, u32v, a *b)
LOOP(mul_i64, u64v, a *b)
LOOP(mul_u8, u8v, a *b)
LOOP(min_i32, i32v, PICK(i32v, b < a, b, a))
LOOP(min_i64, i64v, PICK(i64v, b < a, b, a))
LOOP(min_u8, u8v, PICK(u8v, b < a, b, a))
LOOP(max_i32, i32v, PICK(i32v, b > a, b, a))
LOOP(max_i64, i64v, PICK(i64v, b > a, b, a))
LOOP(max_u8, u8v, PICK(u8v, b > a, b, a))

/* By operation, of those that go on with what they have.  Extremes of floats
 * are those of their keys. */
static void (*const loops[N_LANES][GM_COMBINE_MAX + 1])(void *, const void *,
							size_t) = {
	[LANE_F32] = { add_f32, mul_f32, min_i32, max_i32 },
	[LANE_I32] = { add_i32, mul_i32, min_i32, max_i32 },
	[LANE_I64] = { add_i64, mul_i64, min_i64, max_i64 },
	[LANE_U8] = { add_u8, mul_u8, min_u8, max_u8 },
};

/* ---- keys of floats ------------------------------------------------------ */

/* Integers that are ordered as the floats are; of those below zero all bits but
 * the sign are turned over.  A NaN becomes @nan. */
static void to_keys(union block *b, int32_t nan)
{
	const i32v nans = (i32v){ 0 } + nan;

	for (size_t i = 0; i < BLOCK; i += 8) {
		i32v *p = (i32v *)&b->i32[i];
		i32v x = *p, magnitude = x & INT32_MAX;
		i32v is_nan = magnitude > 0x7f800000;

		x ^= (i32v)((u32v)(x >> 31) >> 1);
		*p = PICK(i32v, is_nan, nans, x);
	}
}

static void from_keys(union block *b)
{
	for (size_t i = 0; i < BLOCK; i += 8) {
		i32v *p = (i32v *)&b->i32[i];

		*p ^= (i32v)((u32v)(*p >> 31) >> 1);
	}
}

/* Which of two NaNs a sum or a product is, is up to the compiler, and may be
 * one thing in one place of a loop and another in the next.  So all are one. */
static void settle_nans(union block *b, size_t bytes)
{
	const i32v nans = (i32v){ 0 } + 0x7fc00000;

	for (size_t i = 0; i < bytes / sizeof(int32_t); i += 8) {
		i32v *p = (i32v *)&b->i32[i];

		*p = PICK(i32v, (*p & INT32_MAX) > 0x7f800000, nans, *p);
	}
}

/* ---- blocks -------------------------------------------------------------- */

static bool is_extreme(uint32_t op)
{
	return op == GM_COMBINE_MIN || op == GM_COMBINE_MAX;
}

/* @n elements as they are computed with, in @room or where they lie. */
static const void *widen(const struct gm_host_kernels *k, uint32_t op,
			 uint32_t dtype, const void *src, size_t n,
			 union block *room)
{
	bool is_float = kinds[dtype].lane == LANE_F32;

	if (dtype == GPUMAP_DTYPE_F16 || dtype == GPUMAP_DTYPE_BF16)
		k->cast[dtype][GPUMAP_DTYPE_F32](room, src, n);
	else if (n == BLOCK && !(is_float && is_extreme(op)))
		return src;
	else
		memcpy(room, src, n * kinds[dtype].bytes);
	if (is_float && is_extreme(op))
		to_keys(room, op == GM_COMBINE_MIN ? INT32_MIN : INT32_MAX);
	return room;
}

static void narrow(const struct gm_host_kernels *k, uint32_t dtype, void *dst,
		   const union block *acc, size_t n)
{
	if (dtype == GPUMAP_DTYPE_F16 || dtype == GPUMAP_DTYPE_BF16)
		k->cast[GPUMAP_DTYPE_F32][dtype](dst, acc, n);
	else
		memcpy(dst, acc, n * kinds[dtype].bytes);
}

static void combine_block(const struct gm_combination *c, void *dst, size_t at,
			  size_t n)
{
	uint32_t op = c->op, dtype = c->dtype, lane = kinds[dtype].lane;
	uint32_t step = op == GM_COMBINE_AVERAGE ? GM_COMBINE_SUM : op;
	size_t bytes = (n * lane_bytes[lane] + 31) / 32 * 32;
	union block acc, room;

	if (n < BLOCK) {
		memset(&acc, 0, sizeof(acc));
		memset(&room, 0, sizeof(room));
	}
	for (uint32_t i = 0; i < c->n_src; i++) {
		const char *from = (const char *)c->src[i];
		const void *in = widen(c->kernels, op, dtype,
				       from + at * kinds[dtype].bytes, n,
				       i == 0 ? &acc : &room);

		if (i > 0)
			loops[lane][step](&acc, in, bytes);
		else if (in != &acc)
			memcpy(&acc, in, bytes);
	}
	if (lane == LANE_F32 && is_extreme(op))
		from_keys(&acc);
	for (size_t i = 0; op == GM_COMBINE_AVERAGE && i < n; i++)
		acc.f32[i] /= (float)c->n_src;
	if (lane == LANE_F32 && !is_extreme(op))
		settle_nans(&acc, bytes);
	narrow(c->kernels, dtype, (char *)dst + at * kinds[dtype].bytes, &acc,
	       n);
}

/* ---- averages of integers ------------------------------------------------ */

static int64_t load_integer(uint32_t dtype, const void *src, size_t i)
{
	const char *from = (const char *)src + i * kinds[dtype].bytes;
	uint8_t u8;
	int32_t i32;
	int64_t i64;

	switch (dtype) {
	case GPUMAP_DTYPE_U8:
		memcpy(&u8, from, sizeof(u8));
		return u8;
	case GPUMAP_DTYPE_I32:
		memcpy(&i32, from, sizeof(i32));
		return i32;
	default:
		memcpy(&i64, from, sizeof(i64));
		return i64;
	}
}

/* In two's complement the lower bytes are those of the smaller type. */
static void store_integer(uint32_t dtype, void *dst, size_t i, int64_t value)
{
	char *to = (char *)dst + i * kinds[dtype].bytes;
	uint8_t u8 = (uint8_t)value;
	int32_t i32 = (int32_t)value;

	switch (dtype) {
	case GPUMAP_DTYPE_U8:
		memcpy(to, &u8, sizeof(u8));
		break;
	case GPUMAP_DTYPE_I32:
		memcpy(to, &i32, sizeof(i32));
		break;
	default:
		memcpy(to, &value, sizeof(value));
		break;
	}
}

__extension__ typedef __int128 wide;

static void average(const struct gm_combination *c, void *dst, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		wide sum = 0;

		for (uint32_t k = 0; k < c->n_src; k++)
			sum += load_integer(c->dtype, c->src[k], i);
		store_integer(c->dtype, dst, i,
			      (int64_t)(sum / (wide)c->n_src));
	}
}

/* ---- all of it ----------------------------------------------------------- */

bool gm_combine_knows(uint32_t op, uint32_t dtype)
{
	return op <= GM_COMBINE_AVERAGE && dtype < GM_HOST_DTYPES &&
	       kinds[dtype].bytes != 0;
}

void gm_combine(const struct gm_combination *c, void *dst, size_t n)
{
	if (c->op == GM_COMBINE_AVERAGE && kinds[c->dtype].lane != LANE_F32) {
		average(c, dst, n);
		return;
	}
	for (size_t at = 0; at < n; at += BLOCK)
		combine_block(c, dst, at, n - at < BLOCK ? n - at : BLOCK);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/reduce.h"

#include <string.h>

#include "agent/device/task.h"
#include "gpumap.h"

static bool is_float(uint32_t dtype)
{
	return dtype == GPUMAP_DTYPE_F16 || dtype == GPUMAP_DTYPE_BF16 ||
	       dtype == GPUMAP_DTYPE_F32 || dtype == GPUMAP_DTYPE_F64;
}

static bool is_signed(uint32_t dtype)
{
	return is_float(dtype) || dtype == GPUMAP_DTYPE_I32 ||
	       dtype == GPUMAP_DTYPE_I64;
}

/* ---- integers of an element's size --------------------------------------- */

static int64_t load_signed(const void *from, uint32_t bytes)
{
	int16_t x16;
	int32_t x32;
	int64_t x64;

	switch (bytes) {
	case 2:
		memcpy(&x16, from, sizeof(x16));
		return x16;
	case 4:
		memcpy(&x32, from, sizeof(x32));
		return x32;
	default:
		memcpy(&x64, from, sizeof(x64));
		return x64;
	}
}

static void store(void *to, uint64_t bits, uint32_t bytes)
{
	uint8_t x8 = (uint8_t)bits;
	uint16_t x16 = (uint16_t)bits;
	uint32_t x32 = (uint32_t)bits;

	switch (bytes) {
	case 1:
		memcpy(to, &x8, sizeof(x8));
		break;
	case 2:
		memcpy(to, &x16, sizeof(x16));
		break;
	case 4:
		memcpy(to, &x32, sizeof(x32));
		break;
	default:
		memcpy(to, &bits, sizeof(bits));
		break;
	}
}

/* ---- levels of a sum ----------------------------------------------------- */

static void begin_chunk(struct gm_reduce_level *level)
{
	memset(&level->lane, 0, sizeof(level->lane)); /* 0.0, of either size */
}

/* Each lane and the one that differs from it in bit 4, then in bit 3, to 0. */
static double fold(struct gm_reduce_level *level, bool is_double)
{
	float *f32 = level->lane.f32;
	double *f64 = level->lane.f64;

	for (uint32_t d = GM_REDUCE_LANES / 2; d > 0; d /= 2) {
		for (uint32_t l = 0; l < d; l++) {
			if (is_double)
				f64[l] += f64[l + d];
			else
				f32[l] += f32[l + d];
		}
	}
	return is_double ? f64[0] : (double)f32[0];
}

/* The chunk under way of level @i is over: an element of the next. */
static void pass_on(struct gm_reduce *r, uint32_t i, bool is_double)
{
	struct gm_reduce_level *next;

	do {
		double result = fold(&r->level[i], is_double);
		uint32_t lane;

		r->level[i++].last = result;
		next = &r->level[i];
		lane = (uint32_t)(next->n % GM_REDUCE_LANES);
		if (next->n++ % GM_REDUCE_CHUNK == 0)
			begin_chunk(next);
		if (is_double)
			next->lane.f64[lane] += result;
		else
			next->lane.f32[lane] += (float)result;
	} while (next->n % GM_REDUCE_CHUNK == 0);
}

static double end_levels(struct gm_reduce *r, bool is_double)
{
	uint32_t i = 0;

	for (;; i++) {
		if (r->level[i].n % GM_REDUCE_CHUNK)
			pass_on(r, i, is_double);
		if (r->level[i + 1].n == 1)
			return r->level[i].last;
	}
}

/* Only some of a row of lanes: 0 added to the others changes none, because none
 * is ever -0. */
static void add_some(struct gm_reduce_level *level,
		     const struct gm_host_kernels *k, uint32_t dtype,
		     const char *from, uint64_t n)
{
	char row[GM_REDUCE_LANES * sizeof(double)] = { 0 };
	uint32_t each = gm_ops_dtype_bytes(dtype);

	memcpy(row + level->n % GM_REDUCE_LANES * each, from, n * each);
	k->sum_rows[dtype](&level->lane, row, 1);
}

static void add_floats(struct gm_reduce *r, const struct gm_host_kernels *k,
		       uint32_t dtype, const char *from, uint64_t n)
{
	struct gm_reduce_level *level = &r->level[0];
	uint32_t each = gm_ops_dtype_bytes(dtype);
	uint64_t count;

	for (; n > 0; n -= count, from += count * each) {
		uint64_t at = level->n % GM_REDUCE_CHUNK;
		uint64_t in_row = GM_REDUCE_LANES - at % GM_REDUCE_LANES;

		count = GM_REDUCE_CHUNK - at;
		count = n < count ? n : count;
		if (at == 0)
			begin_chunk(level);
		if (in_row < GM_REDUCE_LANES || count < in_row) {
			count = count < in_row ? count : in_row;
			add_some(level, k, dtype, from, count);
		} else {
			count -= count % GM_REDUCE_LANES;
			k->sum_rows[dtype](&level->lane, from,
					   count / GM_REDUCE_LANES);
		}
		level->n += count;
		if (level->n % GM_REDUCE_CHUNK == 0)
			pass_on(r, 0, dtype == GPUMAP_DTYPE_F64);
	}
}

/* ---- all of it ----------------------------------------------------------- */

void gm_reduce_begin(struct gm_reduce *r, uint32_t op, uint32_t dtype)
{
	uint32_t bytes = gm_ops_dtype_bytes(dtype);
	uint64_t low = is_signed(dtype) ? UINT64_C(1) << (8 * bytes - 1) : 0;

	*r = (struct gm_reduce){ 0 };
	if (op == GPUMAP_OP_MIN)
		store(r->best, low - 1, bytes);
	else if (op == GPUMAP_OP_MAX)
		store(r->best, low, bytes);
}

void gm_reduce_add(struct gm_reduce *r, const struct gm_host_kernels *kernels,
		   uint32_t op, uint32_t dtype, const void *src, uint64_t n)
{
	r->n += n;
	if (op == GPUMAP_OP_MIN)
		kernels->min[dtype](r->best, src, n);
	else if (op == GPUMAP_OP_MAX)
		kernels->max[dtype](r->best, src, n);
	else if (is_float(dtype))
		add_floats(r, kernels, dtype, src, n);
	else
		kernels->sum[dtype](&r->sum, src, n);
}

/* An integer that is ordered as floats are, back to the float: it has the sign
 * and, of a negative one, the complement of the magnitude. */
static uint64_t unordered(const void *key, uint32_t bytes)
{
	uint64_t magnitude = (UINT64_C(1) << (8 * bytes - 1)) - 1;
	int64_t x = load_signed(key, bytes);

	return x < 0 ? (uint64_t)x ^ magnitude : (uint64_t)x;
}

static void end_sum(struct gm_reduce *r, uint32_t dtype, void *dst)
{
	double sum = end_levels(r, dtype == GPUMAP_DTYPE_F64);
	float f = (float)sum;

	if (dtype == GPUMAP_DTYPE_F64)
		memcpy(dst, &sum, sizeof(sum));
	else
		memcpy(dst, &f, sizeof(f));
}

void gm_reduce_end(struct gm_reduce *r, uint32_t op, uint32_t dtype, void *dst)
{
	uint32_t bytes = gm_ops_dtype_bytes(dtype);

	if (op == GPUMAP_OP_SUM && is_float(dtype))
		end_sum(r, dtype, dst);
	else if (op == GPUMAP_OP_SUM)
		memcpy(dst, &r->sum, sizeof(r->sum));
	else if (is_float(dtype))
		store(dst, unordered(r->best, bytes), bytes);
	else
		memcpy(dst, r->best, bytes);
}

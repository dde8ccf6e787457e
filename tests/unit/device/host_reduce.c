/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host: SUM, MIN and MAX against the operators' definition in plain C, round
 * after round: every dtype and width of vectors, any pieces, the lengths about
 * which chunks and levels begin, and the numbers that are hard.
 */

#include <errno.h>
#include <stdlib.h>

#include "agent/device/device.h"
#include "agent/device/reduce.h"
#include "tests/support/operators/operators_case.h"
#include "tests/support/tap.h"

#define MOST  ((UINT64_C(1) << 20) + 1030)
#define SHORT 3200u /* of which every kind and alignment is tried */

static const struct gm_host_kernels *k;
static unsigned char *src, *rounds[2];

static const struct {
	uint32_t operator, op;
} ops[] = {
	{ GM_OPERATOR_SUM, GPUMAP_OP_SUM },
	{ GM_OPERATOR_MIN, GPUMAP_OP_MIN },
	{ GM_OPERATOR_MAX, GPUMAP_OP_MAX },
};

/* The definition, until one element is left. */
static uint64_t defined(uint32_t operator, uint32_t dtype, const void *from,
			uint64_t n)
{
	struct ref_args a = { .src = from, .n = n };
	uint32_t round = 0;

	do {
		a.dst = rounds[round++ % 2];
		ref_run(operator, dtype, 0, &a);
		a.src = a.dst;
		a.n = gm_operators_chunks(a.n);
		dtype = ref_result(operator, dtype);
	} while (a.n > 1);
	return ref_load(a.src, 0, dtype);
}

/* In pieces of up to @most elements. */
static uint64_t reduced(uint32_t op, uint32_t dtype, const unsigned char *from,
			uint64_t n, uint64_t most)
{
	unsigned char result[8] = { 0 };
	struct gm_reduce r;
	uint64_t count;

	gm_reduce_begin(&r, op, dtype);
	for (uint64_t i = 0; i < n; i += count) {
		count = 1 + dice(most);
		count = count < n - i ? count : n - i;
		gm_reduce_add(&r, k, op, dtype, from + i * ref_bytes(dtype),
			      count);
	}
	gm_reduce_end(&r, op, dtype, result);
	return ref_load(result, 0,
			op == GPUMAP_OP_SUM ? ref_result(GM_OPERATOR_SUM, dtype)
					    : dtype);
}

static bool holds(size_t o, uint32_t dtype, uint64_t n, uint64_t most)
{
	const unsigned char *from = src + dice(64);
	uint64_t want = defined(ops[o].operator, dtype, from, n);
	uint64_t got = reduced(ops[o].op, dtype, from, n, most);

	if (ref_same(ref_result(ops[o].operator, dtype), got, want))
		return true;
	NOTE("%s: operation %u of dtype %u, %" PRIu64 " elements, pieces of up "
	     "to %" PRIu64 ": %#" PRIx64 " for %#" PRIx64,
	     k->name, ops[o].op, dtype, n, most, got, want);
	return false;
}

/* Sums of any numbers are mostly NaN, so most are tame. */
static void short_ones(size_t o, uint32_t dtype)
{
	bool pass = true;

	for (uint64_t i = 0; i < 900 && pass; i++) {
		uint64_t n = i < 300 ? 1 + i : 1 + dice(SHORT);

		throw_numbers(src, (SHORT + 64) * 8 / ref_bytes(dtype), dtype,
			      (enum numbers)(i % 3));
		pass = holds(o, dtype, n, i % 2 ? n : 1 + dice(n));
	}
	tap_check(pass, gm_ops_name(ops[o].op), __FILE__, __LINE__);
}

/* The extreme one of two zeros, by its sign. */
static void zeroes_have_a_place(void)
{
	static const struct {
		uint32_t dtype;
		uint64_t one, minus;
	} floats[] = {
		{ GPUMAP_DTYPE_F16, 0x3c00, 0x8000 },
		{ GPUMAP_DTYPE_BF16, 0x3f80, 0x8000 },
		{ GPUMAP_DTYPE_F32, 0x3f800000, 0x80000000 },
		{ GPUMAP_DTYPE_F64, UINT64_C(0x3ff0000000000000),
		  UINT64_C(0x8000000000000000) },
	};
	bool pass = true;

	for (uint32_t i = 0; i < 4 * 120 && pass; i++) {
		uint32_t dtype = floats[i % 4].dtype;
		uint64_t one = floats[i % 4].one, minus = floats[i % 4].minus;
		const uint64_t pairs[][2] = { { 0, one },
					      { 0, one | minus },
					      { minus, one },
					      { minus, one | minus },
					      { 0, minus } };

		for (uint32_t j = 0; j < SHORT; j++)
			ref_store(src, j, dtype, pairs[i / 4 % 5][dice(2)]);
		pass = holds(1, dtype, 1 + dice(SHORT - 64), SHORT) &&
		       holds(2, dtype, 1 + dice(SHORT - 64), SHORT);
	}
	OK(pass);
}

static void levels_begin_where_they_should(void)
{
	static const uint64_t lengths[] = { 1023,          1024,    1025,
					    2047,          2048,    1047552,
					    1048575,       1048576, 1048577,
					    1048576 + 1025 };
	static const uint32_t dtypes[] = { GPUMAP_DTYPE_F16, GPUMAP_DTYPE_F64,
					   GPUMAP_DTYPE_F32 };
	bool pass = true;

	for (uint32_t d = 0; d < 3 && pass; d++) {
		throw_numbers(src, MOST + 8, dtypes[d], TAME);
		for (uint32_t i = 0; i < 10 && pass; i++)
			pass = holds(0, dtypes[d], lengths[i], lengths[i]) &&
			       holds(0, dtypes[d], lengths[i], 70000);
	}
	OK(pass);
}

/* ---- through the backend ------------------------------------------------- */

static struct gm_backend_device *dev;

static void slices_come_in_order(void)
{
	struct gm_reduce so_far;
	float whole = 0, parts = 0;
	struct gm_task task = { .op = GPUMAP_OP_SUM,
				.dtype = GPUMAP_DTYPE_F32,
				.dst = &whole,
				.src = src,
				.n = 100000 };

	throw_numbers(src, task.n, task.dtype, TAME);
	EQ(gm_host_backend.run(dev, &task, 0, task.n), 0);
	task.dst = &parts;
	/* A reduction without its state cannot go on. */
	EQ(gm_host_backend.run(dev, &task, 0, 1000), -ERANGE);
	EQ(gm_host_backend.run(dev, &task, 1000, 1000), -ERANGE);
	task.so_far = &so_far;
	EQ(gm_host_backend.run(dev, &task, 0, 1000), 0);
	EQ(gm_host_backend.run(dev, &task, 2000, 1000), -ERANGE);
	EQ(gm_host_backend.run(dev, &task, 1000, 30001), 0);
	OK(parts == 0); /* it is written once, at the end */
	EQ(gm_host_backend.run(dev, &task, 31001, task.n - 31001), 0);
	OK(memcmp(&whole, &parts, sizeof(whole)) == 0);
	/* From the beginning again. */
	parts = 0;
	EQ(gm_host_backend.run(dev, &task, 0, task.n), 0);
	OK(memcmp(&whole, &parts, sizeof(whole)) == 0);
}

TAP_CASE()
{
	struct gm_device_config config = { 0 };

	src = malloc(MOST * 8 + 128);
	rounds[0] = malloc(MOST / 1024 * 8 + 64);
	rounds[1] = malloc(MOST / 1024 * 8 + 64);
	if (!src || !rounds[0] || !rounds[1] ||
	    !EQ(gm_host_backend.open(&config, &dev), 0))
		return 1;
	for (int i = 0; gm_host_kernels_all[i]; i++) {
		k = gm_host_kernels_all[i];
		if (!k->usable()) {
			SKIP(1, "this CPU has not these vectors");
			continue;
		}
		NOTE("%s", k->name);
		for (uint32_t d = 0; d < N_DTYPES; d++)
			for (size_t o = 0; o < 3; o++)
				short_ones(o, d);
		zeroes_have_a_place();
		levels_begin_where_they_should();
	}
	slices_come_in_order();
	gm_host_backend.close(dev);
	free(src);
	free(rounds[0]);
	free(rounds[1]);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host: what is computed, against the operators' definition in plain C, in
 * every vector width that this CPU has: every dtype, every remainder, every
 * alignment, the numbers that are hard, and every f16 and bf16 that there is.
 */

#include <errno.h>
#include <stdlib.h>

#include "agent/device/device.h"
#include "agent/device/host_kernels.h"
#include "tests/support/operators/operators_case.h"
#include "tests/support/tap.h"

#define GUARD    64u
#define LENGTHS  72u /* more than four of the longest vectors of f32 */
#define ROOM     (2 * GUARD + 64 + LENGTHS * 8)
#define PATTERNS 65536u

static const struct gm_host_kernels *k;
static struct gm_backend_device *dev;
static unsigned char to[ROOM], want[ROOM], before[ROOM], from[ROOM], mask[ROOM];

static void run(const struct trial *t, const struct ref_args *a)
{
	switch (t->op) {
	case GM_OPERATOR_SCALE:
		k->scale[t->dtype](a->dst, a->src, a->alpha, a->n);
		break;
	case GM_OPERATOR_AXPY:
		k->axpy[t->dtype](a->dst, a->src, a->alpha, a->n);
		break;
	case GM_OPERATOR_MASK_ADD:
		k->mask_add[t->dtype](a->dst, a->src, a->mask, a->n);
		break;
	case GM_OPERATOR_MASK_BOOL:
		k->mask_bool[t->dtype](a->dst, a->src, a->mask, a->n);
		break;
	default:
		k->cast[t->dtype][t->to](a->dst, a->src, a->n);
		break;
	}
}

static bool same_elements(uint32_t dtype, const void *got, const void *expected,
			  uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t a = ref_load(got, i, dtype);
		uint64_t b = ref_load(expected, i, dtype);

		if (!ref_same(dtype, a, b)) {
			NOTE("element %" PRIu64 " is %#" PRIx64
			     " and should be %#" PRIx64,
			     i, a, b);
			return false;
		}
	}
	return true;
}

/* The elements are right, and nothing beside them has changed. */
static bool trial_holds(const struct trial *t)
{
	uint32_t out = out_dtype(t);
	size_t at = GUARD + t->shift, end = at + t->n * ref_bytes(out);
	struct ref_args a = { .n = t->n,
			      .alpha = (double)(float)-1.7,
			      .mask = mask + t->src_shift,
			      .m = LENGTHS };

	throw_numbers(to, sizeof(to) / 8, GPUMAP_DTYPE_U64, ANY);
	throw_numbers(from + GUARD + t->src_shift, t->n, t->dtype, ANY);
	throw_numbers(to + at, t->n, out, ANY);
	throw_numbers(mask + t->src_shift, LENGTHS, t->dtype, ANY);
	memcpy(want, to, sizeof(to));
	memcpy(before, from, sizeof(from));
	a.dst = want + at;
	a.src = t->in_place ? a.dst : from + GUARD + t->src_shift;
	ref_run(t->op, t->dtype, t->to, &a);
	a.dst = to + at;
	a.src = t->in_place ? a.dst : a.src;
	run(t, &a);
	return same_elements(out, to + at, want + at, t->n) &&
	       memcmp(to, want, at) == 0 &&
	       memcmp(to + end, want + end, sizeof(to) - end) == 0 &&
	       memcmp(from, before, sizeof(from)) == 0;
}

static void lengths_and_alignments(uint32_t op, uint32_t dtype, uint32_t dst)
{
	char name[GM_OPERATOR_NAME_BYTES];
	struct trial t = { .op = op, .dtype = dtype, .to = dst };
	bool pass = true;

	if (gm_operators_name(op, dtype, dst, name) < 0)
		return;
	for (t.n = 0; t.n < LENGTHS && pass; t.n++) {
		for (t.shift = 0; t.shift < 64 && pass; t.shift++) {
			t.src_shift = (uint32_t)dice(64);
			t.in_place = op != GM_OPERATOR_CAST && dice(4) == 0;
			pass = trial_holds(&t);
		}
	}
	if (!pass)
		NOTE("%s of %s: %" PRIu64 " elements, dst at +%u, src at +%u",
		     k->name, name, t.n - 1, t.shift - 1, t.src_shift);
	tap_check(pass, name, __FILE__, __LINE__);
}

/* ---- casts --------------------------------------------------------------- */

static bool is_quiet(uint32_t dtype, uint64_t bits)
{
	switch (dtype) {
	case GPUMAP_DTYPE_F16:
		return (bits & 0x7fff) <= 0x7c00 || (bits & 0x200);
	case GPUMAP_DTYPE_BF16:
		return (bits & 0x7fff) <= 0x7f80 || (bits & 0x40);
	default:
		return (bits & 0x7fffffff) <= 0x7f800000 || (bits & 0x400000);
	}
}

/* @n elements in one piece: as the definition has them, NaNs quiet, and the
 * same bits as without vectors. */
static bool cast_holds(uint32_t dtype, uint32_t dst, const void *elements,
		       uint64_t n)
{
	static unsigned char got[PATTERNS * 4], expected[PATTERNS * 4];
	const struct ref_args a = { .dst = expected, .src = elements, .n = n };
	const struct gm_host_kernels *const *plain = gm_host_kernels_all;

	while (strcmp((*plain)->name, "plain") != 0)
		plain++;
	ref_run(GM_OPERATOR_CAST, dtype, dst, &a);
	k->cast[dtype][dst](got, elements, n);
	if (!same_elements(dst, got, expected, n))
		return false;
	for (uint64_t i = 0; i < n; i++)
		if (!is_quiet(dst, ref_load(got, i, dst)))
			return false;
	(*plain)->cast[dtype][dst](expected, elements, n);
	return memcmp(got, expected, n * ref_bytes(dst)) == 0;
}

static void all_short_floats_are_cast(void)
{
	static unsigned char all[PATTERNS * 2];

	for (uint64_t i = 0; i < PATTERNS; i++)
		ref_store(all, i, GPUMAP_DTYPE_F16, i);
	OK(cast_holds(GPUMAP_DTYPE_F16, GPUMAP_DTYPE_BF16, all, PATTERNS));
	OK(cast_holds(GPUMAP_DTYPE_F16, GPUMAP_DTYPE_F32, all, PATTERNS));
	OK(cast_holds(GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F16, all, PATTERNS));
	OK(cast_holds(GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F32, all, PATTERNS));
}

/* Every sign, exponent and leading bits of a mantissa, with what makes a tie,
 * almost makes one, and does not, in either short type. */
static void long_floats_are_rounded(void)
{
	static const uint32_t lows[] = { 0x0000, 0x0001, 0x0fff, 0x1000, 0x1001,
					 0x1fff, 0x2000, 0x2fff, 0x3000, 0x3001,
					 0x7fff, 0x8000, 0x8001, 0xffff };
	static unsigned char some[PATTERNS * 4];
	bool pass = true;

	for (size_t l = 0; l < sizeof(lows) / sizeof(lows[0]); l++) {
		for (uint64_t i = 0; i < PATTERNS; i++)
			ref_store(some, i, GPUMAP_DTYPE_F32, i << 16 | lows[l]);
		pass &= cast_holds(GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, some,
				   PATTERNS);
		pass &= cast_holds(GPUMAP_DTYPE_F32, GPUMAP_DTYPE_BF16, some,
				   PATTERNS);
	}
	OK(pass);
}

/* By hand, so that no mistake is made twice. */
static void some_are_known(void)
{
	static const struct {
		uint32_t dtype, to;
		uint32_t bits, want;
	} table[] = {
#define F16  GPUMAP_DTYPE_F16
#define BF16 GPUMAP_DTYPE_BF16
#define F32  GPUMAP_DTYPE_F32
		{ F32, F16, 0x3f800000, 0x3c00 }, /* 1 */
		{ F32, F16, 0x477fefff, 0x7bff }, /* below 65520: 65504 */
		{ F32, F16, 0x477ff000, 0x7c00 }, /* 65520: infinity */
		{ F32, F16, 0x33000000, 0x0000 }, /* 2^-25, a tie: 0 */
		{ F32, F16, 0x33000001, 0x0001 }, /* above: 2^-24 */
		{ F32, F16, 0xb3000001, 0x8001 },
		{ F32, F16, 0x387fe000, 0x0400 }, /* a tie: to normal */
		{ F32, F16, 0x00000001, 0x0000 },
		{ F32, F16, 0x80000000, 0x8000 },
		{ F32, F16, 0xff800000, 0xfc00 },
		{ F32, BF16, 0x3f808000, 0x3f80 }, /* ties, to even */
		{ F32, BF16, 0x3f818000, 0x3f82 },
		{ F32, BF16, 0x7f7f8000, 0x7f80 }, /* to infinity */
		{ F32, BF16, 0x7f800001, 0x7fc0 }, /* NaN, not infinity */
		{ F32, BF16, 0x00008001, 0x0001 },
		{ F16, F32, 0x0001, 0x33800000 },
		{ F16, F32, 0x03ff, 0x387fc000 },
		{ F16, F32, 0x7bff, 0x477fe000 },
		{ F16, F32, 0xfc00, 0xff800000 },
		{ F16, BF16, 0x3fff, 0x4000 }, /* 1.999 */
		{ BF16, F16, 0x4780, 0x7c00 }, /* 65536 */
		{ BF16, F32, 0xff80, 0xff800000 },
#undef F16
#undef BF16
#undef F32
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		unsigned char in[4], out[4];

		ref_store(in, 0, table[i].dtype, table[i].bits);
		k->cast[table[i].dtype][table[i].to](out, in, 1);
		if (!EQ(ref_load(out, 0, table[i].to), table[i].want))
			NOTE("%#x", table[i].bits);
	}
}

/* ---- slices -------------------------------------------------------------- */

/* A task in slices of any size, from its end, is what it is in one piece. */
static void slices_make_no_difference(void)
{
	static unsigned char whole[5000 * 4], parts[5000 * 4], in[5000 * 4];
	struct gm_task task = { .op = GPUMAP_OP_CAST,
				.dtype = GPUMAP_DTYPE_F16,
				.to = GPUMAP_DTYPE_F32,
				.dst = whole,
				.src = in,
				.n = 5000 };

	for (int way = 0; way < 2; way++) {
		throw_numbers(in, 5000, task.dtype, ANY);
		task.dst = whole;
		EQ(gm_host_backend.run(dev, &task, 0, task.n), 0);
		task.dst = parts;
		memset(parts, 0x77, sizeof(parts));
		for (uint64_t end = task.n; end > 0;) {
			uint64_t count = 1 + dice(end);

			end -= count;
			EQ(gm_host_backend.run(dev, &task, end, count), 0);
		}
		OK(memcmp(whole, parts, 5000 * ref_bytes(task.to)) == 0);
		task.dtype = GPUMAP_DTYPE_F32;
		task.to = GPUMAP_DTYPE_BF16;
	}
}

/* A mask begins again wherever it ends, however short it is, and a slice begins
 * in it where the one before ended. */
static void masks_begin_again(void)
{
	static const uint32_t lengths[] = { 1,   2,   3,   7,   64,   100,
					    511, 512, 513, 700, 4999, 6000 };
	static unsigned char got[5000 * 8], expected[5000 * 8], in[5000 * 8];
	static unsigned char by[6000 * 8];
	bool pass = true;

	for (uint32_t i = 0; i < 2 * 12 && pass; i++) {
		uint32_t dtype = i % 3 ? GPUMAP_DTYPE_F64 : GPUMAP_DTYPE_F16;
		struct gm_task task = { .op = i % 2 ? GPUMAP_OP_MASK_ADD
						    : GPUMAP_OP_MASK_BOOL,
					.dtype = dtype,
					.dst = got,
					.src = in,
					.mask = by,
					.mask_n = lengths[i / 2],
					.n = 5000 };
		struct ref_args a = { .dst = expected,
				      .src = in,
				      .n = 5000,
				      .mask = by,
				      .m = task.mask_n };

		task.mask_first = (uint32_t)dice(task.mask_n);
		a.at = task.mask_first;
		throw_numbers(in, 5000, dtype, ANY);
		throw_numbers(by, 6000, dtype, ANY);
		for (uint32_t n = 0; n < 3000; n++)
			by[dice(sizeof(by))] = 0;
		ref_run(i % 2 ? GM_OPERATOR_MASK_ADD : GM_OPERATOR_MASK_BOOL,
			dtype, 0, &a);
		for (uint64_t end = task.n; end > 0;) {
			uint64_t count = 1 + dice(end);

			end -= count;
			pass &= gm_host_backend.run(dev, &task, end, count) ==
				0;
		}
		pass = pass && same_elements(dtype, got, expected, 5000);
		if (!pass)
			NOTE("a mask of %u elements", task.mask_n);
	}
	OK(pass);
}

TAP_CASE()
{
	struct gm_device_config config = { 0 };

	if (!EQ(gm_host_backend.open(&config, &dev), 0))
		return tap_done();
	for (int i = 0; gm_host_kernels_all[i]; i++) {
		k = gm_host_kernels_all[i];
		if (!k->usable()) {
			SKIP(1, "this CPU has not these vectors");
			continue;
		}
		for (uint32_t d = 0; d < N_DTYPES; d++) {
			lengths_and_alignments(GM_OPERATOR_SCALE, d, 0);
			lengths_and_alignments(GM_OPERATOR_AXPY, d, 0);
			lengths_and_alignments(GM_OPERATOR_MASK_ADD, d, 0);
			lengths_and_alignments(GM_OPERATOR_MASK_BOOL, d, 0);
			for (uint32_t e = 0; e < N_DTYPES; e++)
				lengths_and_alignments(GM_OPERATOR_CAST, d, e);
		}
		all_short_floats_are_cast();
		long_floats_are_rounded();
		some_are_known();
	}
	slices_make_no_difference();
	masks_begin_again();
	gm_host_backend.close(dev);
	return tap_done();
}

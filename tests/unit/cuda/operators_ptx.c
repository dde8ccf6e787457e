/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The operators' PTX against their definition in C: every kernel, at every kind
 * of alignment and remainder, on numbers that are hard to round, under launches
 * of different shapes.  No card takes part: support/ptx.c runs the text.
 */

#include <math.h>

#include "tests/support/ptx_case.h"

/* ---- all of them -------------------------------------------------------- */

static const struct {
	uint32_t n, shift, src_shift, mask_shift, blocks, threads;
	enum numbers numbers;
	bool in_place;
} shapes[] = {
	{ 0, 0, 0, 0, 1, 32, ANY, false },
	{ 1, 0, 0, 0, 1, 32, ANY, false },
	{ 1, 1, 1, 0, 1, 64, ANY, true },
	{ 7, 0, 0, 1, 2, 32, ANY, true },
	{ 31, 8, 8, 0, 1, 32, ANY, false },
	{ 33, 2, 0, 4, 3, 32, TAME, false },
	{ 40, 0, 1, 0, 1, 32, ONE_HARD, false },
	{ 40, 4, 2, 1, 1, 64, ONE_HARD, false },
	{ 64, 8, 4, 8, 1, 64, ANY, false },
	{ 100, 3, 0, 0, 2, 64, ANY, false },
	{ 100, 0, 5, 0, 2, 32, ANY, false },
	{ 1000, 0, 0, 0, 1, 96, ANY, false },
	{ 1023, 5, 5, 5, 2, 32, TAME, false },
	{ 1024, 0, 0, 0, 2, 128, TAME, true },
	{ 1025, 8, 8, 8, 1, 256, TAME, false },
	{ 2048, 6, 2, 2, 3, 64, ANY, false },
	{ N_MAX, 0, 0, 0, 5, 32, TAME, false },
	{ N_MAX, 7, 7, 7, 2, 256, TAME, false },
	{ N_MAX, 0, 0, 0, 1, 32, ANY, false },
};

/* Where one hard number decides, each shall have had a turn. */
static uint32_t turns(const struct trial *t)
{
	return t->op >= GM_OPERATOR_MIN && t->numbers == ONE_HARD ? 80 : 1;
}

static void kernel_holds(uint32_t op, uint32_t dtype, uint32_t to,
			 const char *name)
{
	uint32_t wrong = 0;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct trial t = {
			.op = op,
			.dtype = dtype,
			.to = to,
			.n = shapes[i].n,
			.shift = shapes[i].shift,
			.src_shift = shapes[i].src_shift,
			.mask_shift = shapes[i].mask_shift,
			.blocks = shapes[i].blocks,
			.threads = shapes[i].threads,
			.numbers = shapes[i].numbers,
			.in_place = shapes[i].in_place && may_be_in_place(op),
		};

		if (t.in_place)
			t.src_shift = t.shift;
		for (uint32_t k = turns(&t); k > 0; k--) {
			if (holds(&t))
				continue;
			NOTE("%s with n %u, shift %u, %u blocks of %u", name,
			     shapes[i].n, t.shift, t.blocks, t.threads);
			wrong++;
		}
	}
	tap_check(wrong == 0, name, __FILE__, __LINE__);
}

/* All 65536, and all floats that differ in the upper half and a tie. */
static void every_half_is_cast(void)
{
	static const uint32_t halves[] = { GPUMAP_DTYPE_F16,
					   GPUMAP_DTYPE_BF16 };
	static const uint32_t ties[] = { 0, 0x1000, 0x7fff, 0x8000, 0x8001 };
	uint32_t wrong = 0;

	for (uint32_t high = 0; high < 0x10000; high += N_MAX) {
		for (uint32_t f = 0; f < 2; f++) {
			struct trial t = { .op = GM_OPERATOR_CAST,
					   .dtype = halves[f],
					   .to = halves[!f],
					   .n = N_MAX,
					   .blocks = 1,
					   .threads = 64 };
			struct ref_args a = { .src = src,
					      .n = N_MAX,
					      .dst = want + GUARD };
			char why[PTX_WHY_BYTES];

			for (uint32_t i = 0; i < N_MAX; i++)
				ref_store(src, i, halves[f], high + i);
			memset(got, 0, ROOM);
			memset(want, 0, ROOM);
			ref_run(t.op, t.dtype, t.to, &a);
			a.dst = got + GUARD;
			wrong += run_text(&t, &a, why) < 0 || !agree(&t);
		}
		for (uint32_t f = 0; f < 2 * 5; f++) {
			struct trial t = { .op = GM_OPERATOR_CAST,
					   .dtype = GPUMAP_DTYPE_F32,
					   .to = halves[f % 2],
					   .n = N_MAX,
					   .blocks = 1,
					   .threads = 64 };
			struct ref_args a = { .src = src,
					      .n = N_MAX,
					      .dst = want + GUARD };
			char why[PTX_WHY_BYTES];

			for (uint32_t i = 0; i < N_MAX; i++)
				ref_store(src, i, GPUMAP_DTYPE_F32,
					  (uint64_t)(high + i) << 16 |
						  ties[f / 2]);
			memset(got, 0, ROOM);
			memset(want, 0, ROOM);
			ref_run(t.op, t.dtype, t.to, &a);
			a.dst = got + GUARD;
			wrong += run_text(&t, &a, why) < 0 || !agree(&t);
		}
	}
	EQ(wrong, 0);
}

/* The definition itself, against values known by hand. */
static void the_definition_is_right(void)
{
	static const struct {
		uint32_t from, to;
		uint64_t bits, result;
	} casts[] = {
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x3f800000, 0x3c00 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x477fe000, 0x7bff },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x477ff000, 0x7c00 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x477fefff, 0x7bff },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x33800000, 0x0001 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x33000000, 0x0000 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x33000001, 0x0001 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x38800000, 0x0400 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x3f801000, 0x3c00 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0x3f803000, 0x3c02 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_BF16, 0x3f808000, 0x3f80 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_BF16, 0x3f818000, 0x3f82 },
		{ GPUMAP_DTYPE_F32, GPUMAP_DTYPE_BF16, 0x7f7fffff, 0x7f80 },
		{ GPUMAP_DTYPE_F16, GPUMAP_DTYPE_F32, 0x0001, 0x33800000 },
		{ GPUMAP_DTYPE_F16, GPUMAP_DTYPE_F32, 0xfbff, 0xc77fe000 },
		{ GPUMAP_DTYPE_F16, GPUMAP_DTYPE_BF16, 0x3c01, 0x3f80 },
	};
	static const float ones[3] = { 1e30f, 1.0f, -1e30f };
	static const unsigned char bytes[3] = { 255, 255, 2 };
	struct ref_args a = { .src = ones, .n = 3, .dst = want };

	for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++) {
		struct ref_args c = { .src = src, .n = 1, .dst = want };

		ref_store(src, 0, casts[i].from, casts[i].bits);
		ref_run(GM_OPERATOR_CAST, casts[i].from, casts[i].to, &c);
		EQ(ref_load(want, 0, casts[i].to), casts[i].result);
	}
	/* lanes 0 and 2 meet before lane 1 does: nothing is lost */
	ref_run(GM_OPERATOR_SUM, GPUMAP_DTYPE_F32, 0, &a);
	EQ(ref_load(want, 0, GPUMAP_DTYPE_F32), 0x3f800000);
	ref_run(GM_OPERATOR_MIN, GPUMAP_DTYPE_F32, 0, &a);
	OK(memcmp(want, &ones[2], 4) == 0);
	a.src = bytes;
	ref_run(GM_OPERATOR_SUM, GPUMAP_DTYPE_U8, 0, &a);
	EQ(ref_load(want, 0, GPUMAP_DTYPE_U64), 512);
}

/* A check that never fails would find every kernel right. */
static void the_check_can_say_no(void)
{
	static const char text[] =
		".visible .entry reach(\n\t.param .u64 p_a\n)\n{\n"
		"\t.reg .b64 a;\n\tld.param.u64 a, [p_a];\n"
		"\tst.global.u32 [a+4], a;\n\tret;\n}\n"
		".visible .entry apart(\n\t.param .u64 p_a\n)\n{\n"
		"\t.reg .pred p;\n\t.reg .b32 x;\n\tmov.u32 x, %tid.x;\n"
		"\tsetp.ge.u32 p, x, 16;\n\t@p bra end;\n"
		"\tshfl.sync.bfly.b32 x, x, 1, 31, -1;\nend:\n\tret;\n}\n"
		".visible .entry fused(\n\t.param .u64 p_a\n)\n{\n"
		"\t.reg .f32 f;\n\tmov.f32 f, 0f3f800000;\n"
		"\tadd.f32 f, f, f;\n\tret;\n}\n"
		".visible .entry round(\n\t.param .u64 p_a\n)\n{\n"
		"loop:\n\tbra loop;\n}\n"
		".visible .entry strange(\n\t.param .u64 p_a\n)\n{\n"
		"\t.reg .b32 x;\n\tpopc.b32 y, x;\n}\n";
	static const struct {
		const char *kernel;
		uint64_t param;
		int rc;
		const char *why;
	} table[] = {
		{ "reach", 0, 0, "" },
		{ "reach", 8, -EFAULT, "not the launch's" },
		{ "reach", 2, -EFAULT, "misaligned" },
		{ "apart", 0, -EFAULT, "not together" },
		{ "fused", 0, -EFAULT, "not understood" },
		{ "round", 0, -EFAULT, "no end" },
		{ "strange", 0, -EINVAL, "cannot read" },
		{ "nothing", 0, -ENOENT, "no kernel" },
	};
	const struct ptx_span span = { got, 8, true };

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char why[PTX_WHY_BYTES] = "";
		uint64_t param = (uint64_t)(uintptr_t)got + table[i].param;
		struct ptx_launch launch = {
			.text = text,
			.kernel = table[i].kernel,
			.params = &param,
			.n_params = 1,
			.blocks = 1,
			.threads = 32,
			.spans = &span,
			.n_spans = 1,
		};

		EQ(ptx_run(&launch, why), table[i].rc);
		if (!OK(strstr(why, table[i].why) != NULL))
			NOTE("%s: %s", table[i].kernel, why);
	}
}

TAP_CASE()
{
	the_check_can_say_no();
	the_definition_is_right();
	for_each_kernel(kernel_holds);
	every_half_is_cast();
	return tap_done();
}

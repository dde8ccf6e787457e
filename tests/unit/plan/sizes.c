/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* kv, isq, dtype, and what rows keep back: formulas and their edges. */

#include <errno.h>
#include <math.h>
#include <stdint.h>

#include "gpumap.h"
#include "lib/model/plan/dtype.h"
#include "lib/model/plan/isq.h"
#include "lib/model/plan/kv.h"
#include "lib/model/plan/place.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MIB      (UINT64_C(1) << 20)
#define GIB      (UINT64_C(1) << 30)

static uint64_t capacity_of(uint64_t avail, bool is_host)
{
	return gm_place_capacity(
		&(struct gm_plan_device){ .avail = avail, .is_host = is_host });
}

static void gpus_keep_a_fiftieth_back_and_at_least_512_mib(void)
{
	EQ(capacity_of(80 * GIB, true), 80 * GIB);
	EQ(capacity_of(80 * GIB, false), 80 * GIB - 1717986918);
	EQ(capacity_of(25 * GIB, false), 25 * GIB - 512 * MIB);
	EQ(capacity_of(512 * MIB + 1, false), 1);
	EQ(capacity_of(512 * MIB, false), 0);
	EQ(capacity_of(1, false), 0);
	EQ(capacity_of(0, false), 0);
	OK(capacity_of(UINT64_MAX, true) == UINT64_MAX);
	/* 0.02 * 2^64, as doubles multiply. */
	OK(capacity_of(UINT64_MAX, false) ==
	   UINT64_MAX - UINT64_C(368934881474191040));
}

#define NO_BLOCKS                                                      \
	"Num GPU blocks is 0. This means there is not enough memory. " \
	"Either reduce the memory amount/utilization/context size or " \
	"disable PagedAttention."

/* Grouped heads, and keys and values that are kept compressed. */
static const struct gm_kv_shape gqa = { 80, 8, 128, 128, false, 0, 0 };
static const struct gm_kv_shape mla = { 2, 4, 12, 8, true, 512, 64 };
static const struct gm_kv_shape none = { 80, 0, 128, 128, false, 0, 0 };

#define TOKEN     (8 * 256 * 2) /* bytes of a token's keys and values of gqa */
#define MIB_OF    GPUMAP_PAGED_MIB
#define SHARE_OF  GPUMAP_PAGED_SHARE
#define TOKENS_OF GPUMAP_PAGED_TOKENS

/* A pool is cut by each division in turn, and may be a share or so many
 * tokens. */
static void pools_have_whole_blocks(void)
{
	static const struct {
		uint32_t budget;
		uint64_t amount;
		float share;
		uint64_t block;
		uint32_t cache_bytes;
		uint64_t capacity, model, act;
		const struct gm_kv_shape *shape;
		uint64_t want; /* 0: the error */
		const char *error;
	} cases[] = {
		{ MIB_OF, 4096, 0, 32, 0, 80 * GIB, 0, 0, &gqa,
		  4096 * MIB / 2 / 32 / 80 / 2048 * 32 * TOKEN, NULL },
		/* Twice the blocks, charged as if of f16. */
		{ MIB_OF, 4096, 0, 32, 1, 80 * GIB, 0, 0, &gqa,
		  4096 * MIB / 1 / 32 / 80 / 2048 * 32 * TOKEN, NULL },
		/* No more than the first device has beside activations. */
		{ MIB_OF, 4096, 0, 32, 0, 1000 * MIB + 5, 0, 100 * MIB + 6,
		  &gqa, 899 * MIB / 2 / 32 / 80 / 2048 * 32 * TOKEN, NULL },
		/* 0.9 is a float: a little less than the double. */
		{ SHARE_OF, 0, 0.9f, 16, 0, 80 * GIB, 10 * GIB, GIB, &gqa,
		  ((uint64_t)(80 * 1073741824.0 * (double)0.9f) - 11 * GIB) /
			  MIB * MIB / 2 / 16 / 80 / 2048 * 16 * TOKEN,
		  NULL },
		/* Keys of 12 are 1 vector of 8. */
		{ TOKENS_OF, 100000, 0, 8, 0, 80 * GIB, 0, 0, &mla,
		  UINT64_C(100000) * 2 * 2 * 576 / MIB * MIB / 2 / 8 / 2 / 576 *
			  4 * (8 * 8 + 8 * 8) * 2,
		  NULL },
		{ SHARE_OF, 0, 0.9f, 32, 0, 80 * GIB, 72 * GIB, GIB, &gqa, 0,
		  NO_BLOCKS },
		{ SHARE_OF, 0, NAN, 32, 0, 80 * GIB, 72 * GIB, GIB, &gqa, 0,
		  NO_BLOCKS },
		{ MIB_OF, 1, 0, 24, 0, 80 * GIB, 0, 0, &gqa, 0,
		  "Block size must be in [8, 16, 32], got 24" },
		{ MIB_OF, 1, 0, 32, 0, 80 * GIB, 0, 0, &none, 0,
		  "The KV cache's elements per token must be at least 1" },
		{ TOKENS_OF, UINT64_MAX, 0, 32, 0, 80 * GIB, 0, 0, &gqa, 0,
		  "The KV cache comes to 2^64 bytes or more" },
	};
	struct gm_plan_error err = { 0 };
	uint64_t bytes = 7;

	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct gm_kv_paged paged = {
			cases[i].budget, cases[i].amount, cases[i].share,
			cases[i].block, cases[i].cache_bytes
		};
		const struct gm_kv_room room = { cases[i].capacity,
						 cases[i].model, cases[i].act };

		bytes = 7;
		err.text[0] = '\0';
		gm_kv_paged_bytes(cases[i].shape, &paged, &room, 2, &bytes,
				  &err);
		EQ(bytes, cases[i].error ? 7 : cases[i].want);
		STR(err.text, cases[i].error ? cases[i].error : "");
	}
	EQ(gm_kv_unpaged(&gqa, UINT64_MAX, 1, 2, &bytes, &err), -EOVERFLOW);
}

static void every_quantisation_has_its_factor(void)
{
	static const struct {
		const char *name, *printed;
		uint32_t of_f16, of_f32;
	} table[] = {
		{ "q4_0", "Q4_0", 4, 8 },  { "Q4_1", "Q4_1", 4, 7 },
		{ "q5_0", "Q5_0", 3, 6 },  { "q5_1", "Q5_1", 3, 6 },
		{ "q8_0", "Q8_0", 2, 4 },  { "q8_1", "Q8_1", 2, 4 },
		{ "q2k", "Q2K", 7, 13 },   { "q3K", "Q3K", 5, 10 },
		{ "Q4k", "Q4K", 4, 8 },    { "q5k", "Q5K", 3, 6 },
		{ "q6k", "Q6K", 3, 5 },    { "q8k", "Q8K", 2, 4 },
		{ "hqq8", "HQQ8", 2, 2 },  { "hqq4", "HQQ4", 4, 4 },
		{ "fp8", "FP8", 2, 2 },    { "afq8", "AFQ8", 2, 4 },
		{ "afq6", "AFQ6", 3, 5 },  { "afq4", "AFQ4", 4, 8 },
		{ "afq3", "AFQ3", 5, 10 }, { "afq2", "AFQ2", 7, 13 },
		{ "f8q8", "F8Q8", 2, 4 },  { "mxfp4", "MXFP4", 3, 3 },
		{ "2", "Q2K", 7, 13 },     { "3", "Q3K", 5, 10 },
		{ "4", "Q4K", 4, 8 },      { "5", "Q5K", 3, 6 },
		{ "6", "Q6K", 3, 5 },      { "8", "Q8_0", 2, 4 },
	};
	static const char *const refused[] = { "",     "7",    "44",  "q4",
					       "afq5", " q4k", "int8" };
	struct gm_plan_error err = { 0 };
	enum gm_isq isq = GM_ISQ_N;

	for (size_t i = 0; i < COUNT(table); i++) {
		EQ(gm_isq_parse(table[i].name, &isq, &err), 0);
		STR(gm_isq_name(isq), table[i].printed);
		EQ(gm_isq_pack_factor(isq, 2), table[i].of_f16);
		EQ(gm_isq_pack_factor(isq, 4), table[i].of_f32);
	}
	for (size_t i = 0; i < COUNT(refused); i++)
		EQ(gm_isq_parse(refused[i], &isq, &err), -EINVAL);
	OK(strncmp(err.text, "ISQ type int8 unknown, choose one of `2`, `3`,",
		   40) == 0);
}

static void types_have_names_in_two_worlds(void)
{
	struct gm_plan_error err = { 0 };
	uint32_t dtype = GPUMAP_DTYPE_I64;

	EQ(gm_dtype_parse("BF16", &dtype, &err), 0);
	EQ(dtype, GPUMAP_DTYPE_BF16);
	EQ(gm_dtype_parse("float16", &dtype, &err), 0);
	EQ(dtype, GPUMAP_DTYPE_F16);
	EQ(gm_dtype_parse("f8e4m3", &dtype, &err), 0);
	EQ(dtype, GPUMAP_DTYPE_F8_E4M3);
	OK(!gm_dtype_computes(dtype) && gm_dtype_computes(GPUMAP_DTYPE_F64));
	EQ(gm_dtype_parse("int16", &dtype, &err), 0);
	EQ(dtype, GPUMAP_DTYPE_I16);
	EQ(gm_dtype_parse("f12", &dtype, &err), -EINVAL);
	STR(err.text, "Model DType `f12` is not supported.");
}

static void the_weakest_card_chooses_the_type(void)
{
	static const struct {
		bool is_cuda;
		uint32_t major, minor, want;
	} cases[] = {
		{ true, 9, 0, GPUMAP_DTYPE_BF16 },
		{ true, 8, 0, GPUMAP_DTYPE_BF16 },
		{ false, 0, 0, GPUMAP_DTYPE_BF16 },
		{ true, 7, 5, GPUMAP_DTYPE_F16 },
		{ true, 5, 3, GPUMAP_DTYPE_F16 },
		{ true, 5, 2, GPUMAP_DTYPE_F32 },
		{ true, 3, 7, GPUMAP_DTYPE_F32 },
	};

	/* From the strongest to the weakest. */
	for (size_t i = 0; i < COUNT(cases); i++) {
		EQ(gm_dtype_of_row(cases[i].is_cuda, cases[i].major,
				   cases[i].minor),
		   cases[i].want);
		for (size_t k = 0; k <= i; k++) {
			EQ(gm_dtype_weaker(cases[i].want, cases[k].want),
			   cases[i].want);
			EQ(gm_dtype_weaker(cases[k].want, cases[i].want),
			   cases[i].want);
		}
	}
}

TAP_CASE()
{
	gpus_keep_a_fiftieth_back_and_at_least_512_mib();
	pools_have_whole_blocks();
	every_quantisation_has_its_factor();
	types_have_names_in_two_worlds();
	the_weakest_card_chooses_the_type();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* ops: what each operation takes, and what is no operation or no dtype. */

#include "shm/ops.h"

#include <errno.h>

#include "tests/support/tap.h"

static void elements_have_sizes(void)
{
	static const struct {
		uint32_t dtype;
		uint32_t bytes;
	} table[] = {
		{ GPUMAP_DTYPE_U8, 1 },      { GPUMAP_DTYPE_F16, 2 },
		{ GPUMAP_DTYPE_BF16, 2 },    { GPUMAP_DTYPE_F32, 4 },
		{ GPUMAP_DTYPE_I32, 4 },     { GPUMAP_DTYPE_I64, 8 },
		{ GPUMAP_DTYPE_F64, 8 },     { GPUMAP_DTYPE_U16, 2 },
		{ GPUMAP_DTYPE_U32, 4 },     { GPUMAP_DTYPE_U64, 8 },
		{ GPUMAP_DTYPE_U64 + 1, 0 }, { UINT32_MAX, 0 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		EQ(gm_ops_dtype_bytes(table[i].dtype), table[i].bytes);
}

static void sums_have_room(void)
{
	static const uint32_t sums[] = {
		[GPUMAP_DTYPE_U8] = GPUMAP_DTYPE_U64,
		[GPUMAP_DTYPE_F16] = GPUMAP_DTYPE_F32,
		[GPUMAP_DTYPE_BF16] = GPUMAP_DTYPE_F32,
		[GPUMAP_DTYPE_F32] = GPUMAP_DTYPE_F32,
		[GPUMAP_DTYPE_I32] = GPUMAP_DTYPE_I64,
		[GPUMAP_DTYPE_I64] = GPUMAP_DTYPE_I64,
		[GPUMAP_DTYPE_F64] = GPUMAP_DTYPE_F64,
		[GPUMAP_DTYPE_U16] = GPUMAP_DTYPE_U64,
		[GPUMAP_DTYPE_U32] = GPUMAP_DTYPE_U64,
		[GPUMAP_DTYPE_U64] = GPUMAP_DTYPE_U64,
	};

	for (uint32_t i = 0; i <= GPUMAP_DTYPE_U64; i++) {
		EQ(gm_ops_result(GPUMAP_OP_SUM, i, 0), sums[i]);
		EQ(gm_ops_result(GPUMAP_OP_MAX, i, 0), i);
		EQ(gm_ops_result(GPUMAP_OP_COPY, i, 0), i);
	}
	EQ(gm_ops_result(GPUMAP_OP_CAST, GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16),
	   GPUMAP_DTYPE_F16);
	EQ(gm_ops_mask_bytes(GPUMAP_OP_MASK_ADD, GPUMAP_DTYPE_F64), 8);
	EQ(gm_ops_mask_bytes(GPUMAP_OP_MASK_BOOL, GPUMAP_DTYPE_F64), 1);
	STR(gm_ops_dtype_name(GPUMAP_DTYPE_BF16), "bf16");
	STR(gm_ops_dtype_name(GPUMAP_DTYPE_U64 + 1), NULL);
}

static void operations_have_names(void)
{
	uint32_t n = 0;

	STR(gm_ops_name(GPUMAP_OP_NOP), "nop");
	STR(gm_ops_name(GPUMAP_OP_RECV), "recv");
	for (uint32_t op = 0; op < 300; op++) {
		n += gm_ops_name(op) != NULL;
		if (gm_ops_name(op) == NULL) {
			EQ(gm_ops_has(op), 0);
			EQ(gm_ops_takes(op, GPUMAP_DTYPE_U8, 0), -EOPNOTSUPP);
		}
	}
	EQ(n, 22);
	STR(gm_ops_name(UINT32_MAX), NULL);
	EQ(gm_ops_has(UINT32_MAX), 0);
}

static void some_are_for_jobs(void)
{
	for (uint32_t op = 0; op < GM_OPS; op++) {
		bool is_job = gm_ops_name(op) != NULL &&
			      op != GPUMAP_OP_ALLOC && op != GPUMAP_OP_FREE &&
			      !gm_ops_is_collective(op);

		if (!EQ((gm_ops_has(op) & GM_OPS_JOB) != 0, is_job))
			NOTE("operation %u", op);
	}
	EQ(gm_ops_has(GPUMAP_OP_NOP), GM_OPS_JOB);
	EQ(gm_ops_has(GPUMAP_OP_AXPY),
	   GM_OPS_JOB | GM_OPS_COMPUTED | GM_OPS_DST | GM_OPS_READS_DST |
		   GM_OPS_SRC | GM_OPS_ALPHA | GM_OPS_IN_PLACE);
	EQ(gm_ops_has(GPUMAP_OP_LOAD), GM_OPS_JOB | GM_OPS_DST | GM_OPS_SRC);
	EQ(gm_ops_has(GPUMAP_OP_FREE), GM_OPS_DST);
}

/* Every pair of dtypes, by hand. */
static void casts_are_between_short_floats(void)
{
	static const uint32_t casts = 1 << GPUMAP_DTYPE_F16 |
				      1 << GPUMAP_DTYPE_BF16 |
				      1 << GPUMAP_DTYPE_F32;
	int wrong = 0;

	for (uint32_t from = 0; from < 34; from++) {
		for (uint32_t to = 0; to < 34; to++) {
			int expected =
				from < 32 && to < 32 && casts >> from & 1 &&
						casts >> to & 1 && from != to
					? 0
					: -EINVAL;

			wrong += gm_ops_takes(GPUMAP_OP_CAST, from, to) !=
				 expected;
		}
	}
	EQ(wrong, 0);
	EQ(gm_ops_takes(GPUMAP_OP_SCALE, GPUMAP_DTYPE_F16, 99), 0);
	EQ(gm_ops_takes(UINT32_MAX, GPUMAP_DTYPE_F16, 0), -EOPNOTSUPP);
}

TAP_CASE()
{
	elements_have_sizes();
	sums_have_room();
	operations_have_names();
	some_are_for_jobs();
	casts_are_between_short_floats();
	return tap_done();
}

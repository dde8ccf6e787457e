/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The built-in operators for the stand-in driver: what it runs where a card
 * would run their PTX, or with OPERATORS_HIP their code objects.
 * $GPUMAP_FAKE_KERNELS names this module.
 */

#include <stddef.h>

#include "agent/cuda/operators.h"
#include "gpumap.h"
#include "tests/fake/kernel.h"
#include "tests/support/operators/operators_ref.h"

#ifdef OPERATORS_HIP
#include "tests/support/operators/operators_hip.h"
#define RUN(launch, op, dtype, to, args) \
	operators_hip_run(launch, op, dtype, to, args)
#else
#define RUN(launch, op, dtype, to, args) ref_run(op, dtype, to, args)
#endif

#define EXPORT __attribute__((visibility("default")))

extern const struct fake_kernel gpumap_fake_kernels[] EXPORT;

static uint64_t u64_of(const void *const *params, int i)
{
	return *(const uint64_t *)params[i];
}

/* Any alignment will do, and of nothing any address. */
static void *reach(struct fake_launch *l, uint64_t address, uint64_t bytes,
		   bool is_write)
{
	static char nothing;

	return bytes ? l->reach(l, address, bytes, 1, is_write) : &nothing;
}

static bool is_mask(uint32_t op)
{
	return op == GM_OPERATOR_MASK_ADD || op == GM_OPERATOR_MASK_BOOL;
}

static void run_fill(struct fake_launch *l, const void *const *params)
{
	struct ref_args a = { .n = u64_of(params, 1),
			      .pattern = u64_of(params, 2) };

	a.dst = reach(l, u64_of(params, 0), a.n, true);
	if (a.dst)
		RUN(l, GM_OPERATOR_FILL, GPUMAP_DTYPE_U8, 0, &a);
}

static void run(struct fake_launch *l, const void *const *params, uint32_t op,
		uint32_t dtype, uint32_t to)
{
	struct ref_args a = { .n = u64_of(params, 2) };
	uint32_t out = op == GM_OPERATOR_CAST ? to : ref_result(op, dtype);
	uint64_t n_out = op >= GM_OPERATOR_SUM ? gm_operators_chunks(a.n) : a.n;
	size_t each = ref_bytes(dtype);

	a.dst = reach(l, u64_of(params, 0), n_out * ref_bytes(out), true);
	a.src = reach(l, u64_of(params, 1), a.n * each, false);
	if (!a.dst || !a.src)
		return;
	if (is_mask(op)) {
		a.m = u64_of(params, 4);
		a.at = u64_of(params, 5);
		a.mask = reach(l, u64_of(params, 3),
			       op == GM_OPERATOR_MASK_ADD ? a.m * each : a.m,
			       false);
		if (!a.mask)
			return;
	} else if (op == GM_OPERATOR_SCALE || op == GM_OPERATOR_AXPY) {
		a.alpha = dtype == GPUMAP_DTYPE_F64 ? *(const double *)params[3]
						    : *(const float *)params[3];
	}
	RUN(l, op, dtype, to, &a);
}

/* Each kernel as KERNEL(operator, dtype, dtype of a cast, name, params). */
#define KERNELS                                          \
	FLOATS(SCALE, scale, "8884", "8888")             \
	FLOATS(AXPY, axpy, "8884", "8888")               \
	FLOATS(MASK_ADD, mask_add, "888888", "888888")   \
	FLOATS(MASK_BOOL, mask_bool, "888888", "888888") \
	KERNEL(CAST, F16, F32, gm_cast_f16_f32, "888")   \
	KERNEL(CAST, BF16, F32, gm_cast_bf16_f32, "888") \
	KERNEL(CAST, F32, F16, gm_cast_f32_f16, "888")   \
	KERNEL(CAST, F32, BF16, gm_cast_f32_bf16, "888") \
	KERNEL(CAST, F16, BF16, gm_cast_f16_bf16, "888") \
	KERNEL(CAST, BF16, F16, gm_cast_bf16_f16, "888") \
	NUMBERS(SUM, sum)                                \
	NUMBERS(MIN, min)                                \
	NUMBERS(MAX, max)

#define FLOATS(op, name, params, params_f64)             \
	KERNEL(op, F16, F16, gm_##name##_f16, params)    \
	KERNEL(op, BF16, BF16, gm_##name##_bf16, params) \
	KERNEL(op, F32, F32, gm_##name##_f32, params)    \
	KERNEL(op, F64, F64, gm_##name##_f64, params_f64)

#define NUMBERS(op, name)                            \
	FLOATS(op, name, "888", "888")               \
	KERNEL(op, U8, U8, gm_##name##_u8, "888")    \
	KERNEL(op, U16, U16, gm_##name##_u16, "888") \
	KERNEL(op, U32, U32, gm_##name##_u32, "888") \
	KERNEL(op, U64, U64, gm_##name##_u64, "888") \
	KERNEL(op, I32, I32, gm_##name##_i32, "888") \
	KERNEL(op, I64, I64, gm_##name##_i64, "888")

#define KERNEL(op, dtype, to, name, params)                                 \
	static void name(struct fake_launch *launch,                        \
			 const void *const *values)                         \
	{                                                                   \
		run(launch, values, GM_OPERATOR_##op, GPUMAP_DTYPE_##dtype, \
		    GPUMAP_DTYPE_##to);                                     \
	}
KERNELS
#undef KERNEL

#define KERNEL(op, dtype, to, name, params) { #name, params, name },

/* clang-format off */
const struct fake_kernel gpumap_fake_kernels[] = {
	{ "gm_fill", "888", run_fill },
	KERNELS
	{ NULL, NULL, NULL },
};
/* clang-format on */

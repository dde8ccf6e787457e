/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * dtype - name and choose the types of activations and the KV cache.
 *
 * Names are taken in any case: those of mistral.rs (bf16, f8e4m3), and those
 * of PyTorch as config.json has them (bfloat16).
 */
#ifndef GM_DTYPE_H
#define GM_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"

enum gm_dtype {
	GM_DTYPE_BF16,
	GM_DTYPE_F16,
	GM_DTYPE_F32,
	GM_DTYPE_F64,
	GM_DTYPE_F8E4M3,
	GM_DTYPE_U8,
	GM_DTYPE_I16,
	GM_DTYPE_I32,
	GM_DTYPE_U32,
	GM_DTYPE_I64
};

/* The type's name, such as "bf16". */
const char *gm_dtype_name(enum gm_dtype dtype);

/* Bytes of one element, 1 to 8. */
uint32_t gm_dtype_bytes(enum gm_dtype dtype);

/* The same as an enum gpumap_dtype, which has no f8e4m3 and no i16: those are
 * as wide as u8 and u16. */
uint32_t gm_dtype_public(enum gm_dtype dtype);

/* The type of an enum gpumap_dtype that computations support.  Returns 0,
 * -EINVAL. */
int gm_dtype_of_public(uint32_t dtype, enum gm_dtype *ret_dtype);

/*
 * gm_dtype_parse - the type called @name
 *
 * Returns	0, -EINVAL
 * Threads	any
 */
int gm_dtype_parse(const char *name, enum gm_dtype *ret_dtype,
		   struct gm_plan_error *ret_err);

/* The facts of one row that decide on its type. */
struct gm_dtype_row {
	bool is_cuda;
	uint32_t cc_major, cc_minor; /* compute capability */
};

/*
 * gm_dtype_choose - choose the type for the rows that hold a model
 *
 * The least capable of the CUDA rows decides: bf16 from compute capability 8.0,
 * f16 from 5.3, else f32.  Cards of the node that hold no part of the model do
 * not count.  Without a CUDA row it is bf16.
 *
 * Threads	any
 */
enum gm_dtype gm_dtype_choose(const struct gm_dtype_row *rows, size_t n);

#endif

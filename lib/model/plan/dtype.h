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

#include "gpumap.h"
#include "lib/model/plan/error.h"

/* Do computations support it?  Those on bf16, f16, f32 and f64 do. */
bool gm_dtype_computes(uint32_t dtype);

/*
 * gm_dtype_parse - the enum gpumap_dtype called @name
 *
 * Returns	0, -EINVAL
 * Threads	any
 */
int gm_dtype_parse(const char *name, uint32_t *ret_dtype,
		   struct gm_plan_error *ret_err);

/*
 * gm_dtype_of_row - the type that a row alone would compute in
 *
 * On CUDA rows it is bf16 from compute capability 8.0, f16 from 5.3, else f32;
 * on other rows bf16.  The weakest of the rows that hold a part of a model
 * decides; cards of the node that hold none do not count.
 *
 * Threads	any
 */
uint32_t gm_dtype_of_row(bool is_cuda, uint32_t cc_major, uint32_t cc_minor);

/* The weaker of two such types. */
uint32_t gm_dtype_weaker(uint32_t a, uint32_t b);

#endif

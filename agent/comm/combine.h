/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * combine - several ranks' elements become one's, on the host.
 *
 * The ranks are taken in their order, so that results are the same on whichever
 * of them they are computed, and from run to run.  f16 and bf16 are computed as
 * f32 and rounded once.  Integers wrap, but their average does not: it is
 * exact, and cut off towards zero.  The least and the greatest of floats are
 * those of GPUMAP_OP_MIN and MAX: -0 is less than +0, and a NaN wins.  A result
 * that is a NaN has the bits 0x7fc00000, or what these are in a smaller type.
 */
#ifndef GM_COMBINE_H
#define GM_COMBINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/device/host_kernels.h"

enum gm_combine_op {
	GM_COMBINE_SUM = 0,
	GM_COMBINE_PRODUCT,
	GM_COMBINE_MIN,
	GM_COMBINE_MAX,
	GM_COMBINE_AVERAGE
};

/* Is there such a thing?  dtype: enum gpumap_dtype. */
bool gm_combine_knows(uint32_t op, uint32_t dtype);

/* A reduction over the elements of several ranks. */
struct gm_combination {
	const struct gm_host_kernels *kernels;
	uint32_t op;    /* enum gm_combine_op */
	uint32_t dtype; /* enum gpumap_dtype */
	const void *const *src;
	uint32_t n_src; /* at least 1 */
};

/*
 * gm_combine - dst[i] = src[0][i] op src[1][i] op ...
 *
 * n	elements; any number, at any alignment
 *
 * dst may be one of the sources, and must not overlap them otherwise.
 */
void gm_combine(const struct gm_combination *c, void *dst, size_t n);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * scatter_combine - combine the results of a reduction's tiles into one.
 *
 * The results are combined from the first to the last, in their own dtype.
 * Sums of floats are rounded after each addition, sums of integers wrap.  Min
 * and max take -0 for less than +0.  If a result is a NaN, so is the combined
 * one: the first NaN.
 *
 * Pure.
 */
#ifndef GM_SCATTER_COMBINE_H
#define GM_SCATTER_COMBINE_H

#include <stdint.h>

/*
 * gm_scatter_combine - one result of many
 *
 * op		GPUMAP_OP_SUM, MIN or MAX
 * dtype	enum gpumap_dtype of the results; with SUM a dtype that sums
 *		have
 * from		n results, aligned to their size; n > 0
 * ret_one	receives the combined result; any alignment
 */
void gm_scatter_combine(uint32_t op, uint32_t dtype, const void *from,
			uint32_t n, void *ret_one);

#endif

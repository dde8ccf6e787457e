/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * scatter_combine - what the results of a reduction's tiles come to.
 *
 * From the first to the last, in the results' own dtype: sums of floats are
 * rounded after each, those of integers wrap; min and max take -0 for less than
 * +0, and a NaN gives a NaN, the first that there is.
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
 * dtype	enum gpumap_dtype of the results; with SUM one that sums have
 * from		n of them, aligned to their bytes; n > 0
 * ret_one	receives one; any alignment
 */
void gm_scatter_combine(uint32_t op, uint32_t dtype, const void *from,
			uint32_t n, void *ret_one);

#endif

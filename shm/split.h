/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * split - share n units out over weighted rows: the largest-remainder rule.
 *
 * Each row gets the floor of its quota n * weight / total; the units that the
 * floors leave over go, one each, to the rows that lost the largest fraction,
 * ties to the earlier row.  Tiles are contiguous in the rows' order, so row i
 * starts where the counts before it end.
 *
 * The rule comes from gam's balanced_partition, which computes in doubles, and
 * other programs may already rely on its answers.  So there are two cases:
 *
 *   1. Below 2^55 units the quotas are computed as it does, in the same order
 *	of operations.  If the floors leave between none and one unit per row,
 *	balanced_partition has an answer and this is it, bit for bit.
 *   2. Otherwise (from 2^55 on rounding makes it assert or be right by luck,
 *	and a product may overflow a double at any n) the quotas are exact
 *	fractions of 128-bit integers.  A weight is then a whole number of
 *	2^-109ths of the power of two at or below the greatest one: nothing
 *	is lost of weights down to 2^-57 of the greatest, and a smaller one
 *	loses less than 2^-45 of a unit of its quota.
 *
 * Either way the counts sum to n, for every n a uint64_t can hold.
 */
#ifndef GM_SPLIT_H
#define GM_SPLIT_H

#include <stdint.h>

#define GM_SPLIT_ROWS 256u /* most rows of one split: the device table's size */

/*
 * gm_split - share @n units out over @k rows
 *
 * weights	@k weights, in any unit.  NaN and negative count as 0.  If they
 *		sum to 0 or to infinity every row gets an even share.  A lone
 *		row gets everything, whatever its weight.
 * k		1 to GM_SPLIT_ROWS
 * ret_counts	receives @k counts that sum to @n; 0 means no tile for that row
 *
 * Returns	0
 *		-EINVAL	@k out of range
 * Cost		no system call, no allocation; k times the units left over,
 *		which are at most k
 * Threads	any
 */
int gm_split(uint64_t n, const double *weights, uint32_t k,
	     uint64_t *ret_counts);

#endif

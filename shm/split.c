/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/split.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* No 128-bit division here: the compiler would call a helper of its own. */
__extension__ typedef unsigned __int128 gm_u128;

#define DOUBLES_END (UINT64_C(1) << 55)

/* A double's fraction has 53 bits; 57 more leave room to add 256 of them. */
#define FRACTION_BITS 52
#define GUARD_BITS    57

_Static_assert(GM_SPLIT_ROWS <= 1u << (126 - FRACTION_BITS - 1 - GUARD_BITS),
	       "twice the sum of all weights must fit 128 bits");

/*
 * The rows' claims to the units left over: the fraction that a row's floor cut
 * off, in any unit that orders it, plus one.  Zero marks a row that has
 * received a unit.
 */
struct line {
	gm_u128 turn[GM_SPLIT_ROWS];
};

static double clean(double weight)
{
	return weight > 0 ? weight : 0; /* NaN is not above zero */
}

static uint64_t bits_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static double sum_of(const double *weights, uint32_t k)
{
	double total = 0;

	for (uint32_t i = 0; i < k; i++)
		total += clean(weights[i]);
	return total;
}

static bool is_share(double total)
{
	const double infinity = __builtin_inf();

	return total > 0 && total < infinity;
}

static void split_evenly(uint64_t n, uint32_t k, uint64_t *counts)
{
	for (uint32_t i = 0; i < k; i++)
		counts[i] = n / k + (i < n % k);
}

/* Returns false where balanced_partition has no answer. */
static bool floors_in_doubles(uint64_t n, const double *weights, uint32_t k,
			      double total, uint64_t *counts, struct line *line)
{
	uint64_t left = n;

	for (uint32_t i = 0; i < k; i++) {
		double quota = (double)n * clean(weights[i]) / total;

		if (!(quota <= (double)DOUBLES_END))
			return false; /* the product overflowed */
		counts[i] = (uint64_t)quota;
		if (counts[i] > left)
			return false;
		left -= counts[i];
		/* The fraction is not negative, and such doubles order as their
		 * bits do. */
		line->turn[i] = (gm_u128)bits_of(quota - (double)counts[i]) + 1;
	}
	return left <= k;
}

static int exponent_of(double weight)
{
	int biased = (int)(bits_of(weight) >> FRACTION_BITS);

	return biased ? biased : 1; /* subnormals share the lowest */
}

/* @weight as a whole number of units, @top being the greatest one's exponent */
static gm_u128 units_of(double weight, int top)
{
	uint64_t hidden = UINT64_C(1) << FRACTION_BITS;
	uint64_t units = bits_of(weight) & (hidden - 1);
	int shift = GUARD_BITS - (top - exponent_of(weight));

	if (weight >= 0x1p-1022)
		units |= hidden;
	if (shift >= 0)
		return (gm_u128)units << shift;
	return shift > -64 ? units >> -shift : 0;
}

/*
 * floor(n * part / whole) bit by bit: the rest stays below @whole, so no
 * intermediate value outgrows 128 bits.
 */
static uint64_t multiply_divide(uint64_t n, gm_u128 part, gm_u128 whole,
				gm_u128 *ret_rest)
{
	uint64_t quotient = 0;
	gm_u128 rest = 0;

	for (int bit = 63; bit >= 0; bit--) {
		quotient *= 2;
		rest *= 2;
		if (n >> bit & 1)
			rest += part;
		for (; rest >= whole; rest -= whole)
			quotient++;
	}
	*ret_rest = rest;
	return quotient;
}

static void floors_exactly(uint64_t n, const double *weights, uint32_t k,
			   uint64_t *counts, struct line *line)
{
	gm_u128 whole = 0, rest;
	int top = 1;

	for (uint32_t i = 0; i < k; i++) {
		int exponent = exponent_of(clean(weights[i]));

		top = exponent > top ? exponent : top;
	}
	for (uint32_t i = 0; i < k; i++)
		whole += units_of(clean(weights[i]), top);
	for (uint32_t i = 0; i < k; i++) {
		counts[i] = multiply_divide(n, units_of(clean(weights[i]), top),
					    whole, &rest);
		line->turn[i] = rest + 1;
	}
}

static void hand_out_rest(uint64_t n, uint32_t k, uint64_t *counts,
			  struct line *line)
{
	uint64_t left = n;

	for (uint32_t i = 0; i < k; i++)
		left -= counts[i];
	for (; left > 0; left--) {
		uint32_t first = 0;

		for (uint32_t i = 1; i < k; i++)
			if (line->turn[i] > line->turn[first])
				first = i;
		counts[first]++;
		line->turn[first] = 0;
	}
}

int gm_split(uint64_t n, const double *weights, uint32_t k,
	     uint64_t *ret_counts)
{
	struct line line;
	double total;

	if (k == 0 || k > GM_SPLIT_ROWS)
		return -EINVAL;

	total = sum_of(weights, k);
	if (k == 1 || !is_share(total)) {
		split_evenly(n, k, ret_counts);
		return 0;
	}
	if (n >= DOUBLES_END ||
	    !floors_in_doubles(n, weights, k, total, ret_counts, &line))
		floors_exactly(n, weights, k, ret_counts, &line);
	hand_out_rest(n, k, ret_counts, &line);
	return 0;
}

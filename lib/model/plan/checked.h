/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * checked - add and multiply sizes from untrusted files without overflow.
 *
 * The caller writes a whole formula and checks once at its end whether any step
 * overflowed 64 bits: @over is set then, and never cleared.
 */
#ifndef GM_CHECKED_H
#define GM_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t gm_checked_add(bool *over, uint64_t a, uint64_t b)
{
	uint64_t sum;

	*over |= __builtin_add_overflow(a, b, &sum);
	return sum;
}

static inline uint64_t gm_checked_mul(bool *over, uint64_t a, uint64_t b)
{
	uint64_t product;

	*over |= __builtin_mul_overflow(a, b, &product);
	return product;
}

/* Multiply from the first factor to the last, each product checked. */
static inline uint64_t gm_checked_product(bool *over, const uint64_t *factors,
					  size_t n)
{
	uint64_t product = 1;

	for (size_t i = 0; i < n; i++)
		product = gm_checked_mul(over, product, factors[i]);
	return product;
}

#define GM_CHECKED_PRODUCT(over, ...)                                  \
	gm_checked_product((over), (const uint64_t[]){ __VA_ARGS__ },  \
			   sizeof((const uint64_t[]){ __VA_ARGS__ }) / \
				   sizeof(uint64_t))

/* a + b, or the greatest number if that is less. */
static inline uint64_t gm_add_up_to_max(uint64_t a, uint64_t b)
{
	return b < UINT64_MAX - a ? a + b : UINT64_MAX;
}

/* a - b, or 0 if @b is greater. */
static inline uint64_t gm_minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Convert as Rust's "as" does: towards zero, within bounds, NaN to 0. */
static inline uint64_t gm_whole(double x)
{
	if (!(x > 0))
		return 0;
	return x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

/* One rank's part of @n, rounded up; no ranks are one. */
static inline uint64_t gm_part(uint64_t n, uint64_t n_ranks)
{
	return n_ranks > 1 ? n / n_ranks + (n % n_ranks != 0) : n;
}

static inline uint64_t gm_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t gm_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif

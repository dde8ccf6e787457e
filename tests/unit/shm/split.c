/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * split and score: the partition covers n for every n, is balanced_partition's
 * where that has an answer, and exact where it has none.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "shm/score.h"
#include "shm/split.h"
#include "tests/support/tap.h"

__extension__ typedef unsigned __int128 u128;

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1d;
}

static uint64_t random_below(uint64_t end)
{
	return random_u64() % end;
}

/* As many magnitudes as there are bits, not only large numbers. */
static uint64_t random_magnitude(uint32_t bits)
{
	return random_u64() >> (64 - 1 - random_below(bits));
}

/* Scores as nodes have them, ties and zeros included. */
static double random_weight(void)
{
	switch (random_below(6)) {
	case 0:
		return 0;
	case 1:
		return (double)random_below(4);
	case 2:
		return -(double)random_below(4);
	case 3:
		return (double)random_u64() / 3e9;
	default:
		return gm_score((int32_t)random_below(200),
				random_below(UINT64_C(192) << 30),
				(int32_t)random_below(11));
	}
}

static uint64_t sum_of(const uint64_t *counts, uint32_t k)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < k; i++)
		sum += counts[i];
	return sum;
}

struct ranked {
	double fraction;
	uint32_t row;
};

static int by_fraction(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->fraction != y->fraction)
		return x->fraction > y->fraction ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* The original, step by step.  Returns false where its assertion fails. */
static bool reference(uint64_t n, const double *weights, uint32_t k,
		      uint64_t *ret_counts)
{
	struct ranked order[GM_SPLIT_ROWS];
	double s[GM_SPLIT_ROWS], total = 0;
	uint64_t sum = 0, left;

	if (k == 1) {
		ret_counts[0] = n;
		return true;
	}
	for (uint32_t i = 0; i < k; i++)
		total += s[i] = fmax(weights[i], 0.0);
	for (uint32_t i = 0; i < k; i++) {
		double ideal = !isfinite(total) || total <= 0
				       ? (double)n / (double)k
				       : (double)n * s[i] / total;

		if (!isfinite(ideal) || ideal >= 0x1p64)
			return false;
		ret_counts[i] = (uint64_t)floor(ideal);
		order[i] = (struct ranked){ ideal - floor(ideal), i };
		if (__builtin_add_overflow(sum, ret_counts[i], &sum))
			return false;
	}
	left = sum < n ? n - sum : 0;
	qsort(order, k, sizeof(order[0]), by_fraction);
	for (uint32_t i = 0; i < k && left > 0; i++, left--)
		ret_counts[order[i].row]++;
	return sum_of(ret_counts, k) == n;
}

static void agrees_with_the_original_below(uint32_t bits, int rounds)
{
	uint64_t got[GM_SPLIT_ROWS], want[GM_SPLIT_ROWS];
	double weights[GM_SPLIT_ROWS];
	int wrong = 0, undefined = 0;

	for (int round = 0; round < rounds; round++) {
		uint64_t n = random_magnitude(bits);
		uint32_t k = 1 + (uint32_t)random_below(round % 16 ? 8 : 256);

		for (uint32_t i = 0; i < k; i++)
			weights[i] = random_weight();
		if (gm_split(n, weights, k, got) || sum_of(got, k) != n)
			wrong++;
		if (!reference(n, weights, k, want))
			undefined++;
		else if (memcmp(got, want, k * sizeof(got[0])))
			wrong++;
	}
	EQ(wrong, 0);
	/* Should the original stop having answers, this compares nothing. */
	OK(undefined < rounds / 2);
	NOTE("below 2^%u: no answer in %d of %d", bits, undefined, rounds);
}

static void is_the_original_wherever_that_has_an_answer(void)
{
	agrees_with_the_original_below(12, 20000);
	agrees_with_the_original_below(40, 20000);
	agrees_with_the_original_below(53, 20000);
	agrees_with_the_original_below(55, 20000);
}

/* From whole weights and a 128-bit division, which shm/ may not use. */
static bool is_exact(uint64_t n, const uint32_t *whole, uint32_t k,
		     const uint64_t *counts)
{
	u128 rest[GM_SPLIT_ROWS], total = 0;
	uint64_t left = n, quota[GM_SPLIT_ROWS];

	for (uint32_t i = 0; i < k; i++)
		total += whole[i];
	for (uint32_t i = 0; i < k; i++) {
		quota[i] = (uint64_t)((u128)n * whole[i] / total);
		rest[i] = (u128)n * whole[i] % total;
		left -= quota[i];
	}
	for (uint32_t i = 0; i < k; i++) {
		uint32_t before = 0;

		for (uint32_t j = 0; j < k; j++)
			before += rest[j] > rest[i] ||
				  (rest[j] == rest[i] && j < i);
		if (counts[i] != quota[i] + (before < left))
			return false;
	}
	return true;
}

static void is_exact_where_doubles_are_not(void)
{
	uint64_t counts[16];
	uint32_t whole[16];
	double weights[16];
	int wrong = 0;

	for (int round = 0; round < 20000; round++) {
		uint64_t n = random_u64() | UINT64_C(1) << 63;
		uint32_t k = 2 + (uint32_t)random_below(15);
		int scale = (int)random_below(1800) - 900;

		n >>= random_below(9); /* 2^55 and up */
		for (uint32_t i = 0; i < k; i++) {
			whole[i] = (uint32_t)random_magnitude(32);
			weights[i] = ldexp(whole[i], scale);
		}
		whole[0] |= 1;
		weights[0] = ldexp(whole[0], scale);
		if (gm_split(n, weights, k, counts) ||
		    !is_exact(n, whole, k, counts))
			wrong++;
	}
	EQ(wrong, 0);
}

/* Between 2^53 and 2^55 it depends on the weights which rule holds. */
static void is_exact_where_the_original_has_no_answer(void)
{
	uint64_t counts[16], original[16];
	uint32_t whole[16];
	double weights[16];
	int wrong = 0, undefined = 0;

	for (int round = 0; round < 50000; round++) {
		uint64_t n = (UINT64_C(1) << 54) + (random_u64() >> 10);
		uint32_t k = 2 + (uint32_t)random_below(3);

		for (uint32_t i = 0; i < k; i++)
			weights[i] = whole[i] = 1 + (uint32_t)random_below(99);
		if (reference(n, weights, k, original))
			continue;
		undefined++;
		if (gm_split(n, weights, k, counts) ||
		    !is_exact(n, whole, k, counts))
			wrong++;
	}
	EQ(wrong, 0);
	OK(undefined > 100);
}

static void covers_every_n_whatever_the_weights(void)
{
	static const uint64_t edges[] = { 0,
					  1,
					  2,
					  UINT64_C(1) << 53,
					  (UINT64_C(1) << 53) + 1,
					  (UINT64_C(1) << 55) - 1,
					  UINT64_C(1) << 55,
					  (UINT64_C(1) << 63) - 1,
					  UINT64_C(1) << 63,
					  UINT64_MAX };
	uint64_t counts[GM_SPLIT_ROWS];
	double weights[GM_SPLIT_ROWS];
	int wrong = 0;

	for (int round = 0; round < 20000; round++) {
		uint64_t n = round % 2 ? edges[random_below(10)] : random_u64();
		uint32_t k = 1 + (uint32_t)random_below(9);

		for (uint32_t i = 0; i < k; i++) {
			uint64_t bits = random_u64(); /* NaN, subnormal, any */

			memcpy(&weights[i], &bits, sizeof(bits));
		}
		if (gm_split(n, weights, k, counts) || sum_of(counts, k) != n)
			wrong++;
		for (uint32_t i = 0; i < k; i++)
			if (counts[i] > n)
				wrong++;
	}
	EQ(wrong, 0);
}

static void ties_go_to_the_earlier_row(void)
{
	const double equal[3] = { 7, 7, 7 }, later[3] = { 1, 2, 2 };
	uint64_t counts[3];

	EQ(gm_split(11, equal, 3, counts), 0);
	OK(counts[0] == 4 && counts[1] == 4 && counts[2] == 3);
	EQ(gm_split((UINT64_C(1) << 63) - 1, equal, 3, counts), 0);
	OK(counts[0] == counts[2] + 1 && counts[1] == counts[2]);
	/* Quotas 0.6, 1.2 and 1.2: the largest fraction, not weight. */
	EQ(gm_split(3, later, 3, counts), 0);
	OK(counts[0] == 1 && counts[1] == 1 && counts[2] == 1);
}

static void no_sensible_weights_give_an_even_share(void)
{
	const double table[][3] = { { 0, 0, 0 },
				    { -1, -2, NAN },
				    { INFINITY, 1, 1 },
				    { 1.7e308, 1.7e308, 1 },
				    { NAN, NAN, NAN } };
	uint64_t counts[3];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		EQ(gm_split(8, table[i], 3, counts), 0);
		OK(counts[0] == 3 && counts[1] == 3 && counts[2] == 2);
	}
}

static void nan_and_negative_weights_count_as_zero(void)
{
	const double weights[4] = { NAN, 3, -5, 1 };
	uint64_t counts[4];

	EQ(gm_split(100, weights, 4, counts), 0);
	OK(counts[0] == 0 && counts[1] == 75 && counts[2] == 0 &&
	   counts[3] == 25);
	EQ(gm_split(UINT64_C(1) << 62, weights, 4, counts), 0);
	OK(counts[0] == 0 && counts[1] == UINT64_C(3) << 60 && counts[2] == 0 &&
	   counts[3] == UINT64_C(1) << 60);
}

static void products_beyond_a_double_are_still_shared_out(void)
{
	const double huge[2] = { 4e307, 8e307 };
	const double least[2] = { 5e-324, 1e-323 };
	const double edge[2] = { 0x1p-1023, 0x1p-1022 }; /* of subnormals */
	uint64_t counts[2];

	EQ(gm_split(3000, huge, 2, counts), 0);
	OK(counts[0] == 1000 && counts[1] == 2000);
	EQ(gm_split(UINT64_C(3) << 60, least, 2, counts), 0);
	OK(counts[0] == UINT64_C(1) << 60 && counts[1] == UINT64_C(2) << 60);
	EQ(gm_split(UINT64_C(3) << 60, edge, 2, counts), 0);
	OK(counts[0] == UINT64_C(1) << 60 && counts[1] == UINT64_C(2) << 60);
}

static void a_weight_far_below_the_greatest_still_counts(void)
{
	const double weights[2] = { 0x1p-60, 1 };
	uint64_t counts[2];

	EQ(gm_split(UINT64_C(1) << 63, weights, 2, counts), 0);
	OK(counts[0] == 8 && counts[1] == (UINT64_C(1) << 63) - 8);
}

static void a_lone_row_takes_everything(void)
{
	const double useless = NAN;
	uint64_t count;

	EQ(gm_split(UINT64_MAX, &useless, 1, &count), 0);
	OK(count == UINT64_MAX);
}

static void refuses_no_rows_and_too_many(void)
{
	double weights[GM_SPLIT_ROWS + 1] = { 1 };
	uint64_t counts[GM_SPLIT_ROWS + 1] = { 77 };

	EQ(gm_split(1, weights, 0, counts), -EINVAL);
	EQ(gm_split(1, weights, GM_SPLIT_ROWS + 1, counts), -EINVAL);
	EQ(counts[0], 77);
	EQ(gm_split(1, weights, GM_SPLIT_ROWS, counts), 0);
	EQ(counts[0], 1);
}

static void score_is_the_published_formula(void)
{
	OK(gm_score(108, UINT64_C(40) << 30, 8) == 108 + 160 + 150);
	OK(gm_score(80, UINT64_C(16) << 30, 7) == 80 + 64);
	OK(gm_score(0, 1, 0) == 4.0 / 1073741824.0);
	OK(gm_score(-1, 0, -3) == -1);
	OK(gm_score(132, UINT64_MAX, 9) == 132 + 0x1p64 / 0x1p30 * 4 + 150);
}

static void budget_is_what_is_free_up_to_half(void)
{
	OK(gm_budget(10, 100) == 10);
	OK(gm_budget(90, 100) == 50);
	OK(gm_budget(90, 101) == 50);
	OK(gm_budget(0, 0) == 0);
	OK(gm_budget(UINT64_MAX, UINT64_MAX) == UINT64_MAX / 2);
}

TAP_CASE()
{
	is_the_original_wherever_that_has_an_answer();
	is_exact_where_doubles_are_not();
	is_exact_where_the_original_has_no_answer();
	covers_every_n_whatever_the_weights();
	ties_go_to_the_earlier_row();
	no_sensible_weights_give_an_even_share();
	nan_and_negative_weights_count_as_zero();
	products_beyond_a_double_are_still_shared_out();
	a_weight_far_below_the_greatest_still_counts();
	a_lone_row_takes_everything();
	refuses_no_rows_and_too_many();
	score_is_the_published_formula();
	budget_is_what_is_free_up_to_half();
	return tap_done();
}

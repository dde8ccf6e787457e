/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* test_pattern - the pattern that is written into one card's memory and read
 * from another's, to test the path. */
#ifndef GM_WORKER_IO_TEST_PATTERN_H
#define GM_WORKER_IO_TEST_PATTERN_H

#include <stdint.h>

/* A pattern that a broken link does not produce by itself. */
static inline void gm_trial_fill(uint64_t *words, uint64_t n, uint64_t seed)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t x = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

		x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
		words[i] = x ^ x >> 31;
	}
}

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* trial - what is written into the memory of one card to be read from
 * another. */
#ifndef GM_WORKER_IO_TEST_PATTERN_H
#define GM_WORKER_IO_TEST_PATTERN_H

#include <stdint.h>

/* Nothing that a link would come up with by itself. */
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

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/score.h"

#define GIB          1073741824.0
#define PER_GIB      4.0
#define FAST_DOUBLES 100.0 /* has tensor cores for fp64 */
#define FAST_COPIES  50.0  /* has copies that bypass the registers */
#define AMPERE       8     /* the first to have both */

double gm_score(int32_t sm_count, uint64_t free_bytes, int32_t cc_major)
{
	double score = sm_count + (double)free_bytes / GIB * PER_GIB;

	if (cc_major >= AMPERE) {
		score += FAST_DOUBLES;
		score += FAST_COPIES;
	}
	return score;
}

uint64_t gm_budget(uint64_t free_bytes, uint64_t total_bytes)
{
	uint64_t half = total_bytes / 2;

	return free_bytes < half ? free_bytes : half;
}

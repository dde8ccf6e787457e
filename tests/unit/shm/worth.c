/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* worth: the default thresholds, and those that timings show. */

#include "gpumap.h"
#include "shm/layout.h"
#include "shm/worth.h"
#include "tests/support/tap.h"

static void defaults_are_gams(void)
{
	EQ(gm_worth_default(GPUMAP_WORK_GEMM), 100000000);
	EQ(gm_worth_default(GPUMAP_WORK_XTWX), 100000000);
	EQ(gm_worth_default(GPUMAP_WORK_POTRF), 512);
	for (uint32_t work = GPUMAP_WORK_FILL; work < GM_WORKS; work++)
		EQ(gm_worth_default(work), 50000);
	/* A default below the floor would never be looked at. */
	for (uint32_t work = 0; work < GM_WORKS; work++)
		OK(gm_worth_default(work) > gpumap_work_floor(work));
}

static void the_first_size_that_wins_is_the_threshold(void)
{
	static const uint64_t sizes[] = { 64, 128, 256 };
	static const struct {
		uint64_t host[3], device[3], otherwise, least;
	} table[] = {
		/* 95 % of the host's time are a win, and a little more none. */
		{ { 100, 200, 300 }, { 95, 190, 285 }, 512, 64 },
		{ { 100, 200, 300 }, { 96, 190, 285 }, 512, 128 },
		{ { 100, 200, 300 }, { 100, 191, 285 }, 512, 256 },
		/* A later loss does not count. */
		{ { 100, 200, 300 }, { 99, 100, 900 }, 512, 128 },
		{ { 100, 200, 300 }, { 100, 200, 286 }, 512, 512 },
		{ { 100, 200, 300 }, { 100, 200, 300 }, 513, 513 },
		{ { 100, 200, 300 }, { 100, 200, 300 }, 511, 512 },
		{ { 0, 0, 0 }, { 0, 0, 0 }, 1, 64 },
		/* Both lack the operation, or the device alone. */
		{ { UINT64_MAX, UINT64_MAX, UINT64_MAX },
		  { UINT64_MAX, UINT64_MAX, UINT64_MAX },
		  50000,
		  50000 },
		{ { 1, 1, 1 }, { UINT64_MAX, UINT64_MAX, UINT64_MAX }, 1, 512 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		EQ(gm_worth_least(sizes, table[i].host, table[i].device, 3,
				  table[i].otherwise),
		   table[i].least);
}

TAP_CASE()
{
	defaults_are_gams();
	the_first_size_that_wins_is_the_threshold();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_large: jobs of megabytes on a CUDA row, in slices.  ThreadSanitizer does
 * not run them: their sums take it minutes, and show no order that short ones
 * do not.
 */

#include "agent/device/cuda.h"
#include "tests/support/gpu_cases.h"
#include "tests/support/stand_in.h"

TAP_CASE_ARGS(argc, argv)
{
	struct bench b = { 0 };

	(void)argc;
	stand_in_exec(argv);
	if (bench_is_open(&b, "cuda"))
		gpu_cases_large(&b);
	bench_close(&b);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hip: the cases of every driver's rows on a HIP row, over the stand-in under
 * HIP's names.  The row has no operators: each of them is refused.
 */

#include "tests/support/gpu_cases.h"
#include "tests/support/stand_in.h"

static struct bench b = { .backend = &gm_hip_backend };

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	stand_in_exec(argv);
	if (bench_is_open(&b, "hip")) {
		gpu_cases_work(&b);
		gpu_cases_large(&b);
		gpu_cases_memory(&b);
	}
	bench_close(&b);
	return tap_done();
}

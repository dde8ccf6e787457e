/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda: memory of the device without other users' bytes, exports and imports,
 * and client memory in pieces.
 */

#include "tests/support/gpu_cases.h"
#include "tests/support/stand_in.h"

static struct bench b;

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	stand_in_exec(argv);
	if (bench_is_open(&b, "cuda"))
		gpu_cases_memory(&b);
	bench_close(&b);
	return tap_done();
}

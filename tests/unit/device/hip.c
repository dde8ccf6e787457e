/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hip: the cases of every driver's rows on a HIP row, over the stand-in under
 * HIP's names: first without operators, where each of them is refused, and then
 * with them.  The stand-in reads which kernels the code object has, and runs
 * the text that it was made of, as C.
 */

#include "agent/device/cuda.h"
#include "tests/support/gpu_cases.h"
#include "tests/support/stand_in.h"

static struct bench b = { .backend = &gm_hip_backend };

/* The card of a bench that is open, with an instruction set in front. */
static bool name_card(char ret_id[64])
{
	const struct gm_cuda *cuda =
		(struct gm_cuda *)((struct gm_stream *)b.dev)->gpu;
	struct gm_cu_uuid uuid;

	if (cuda->driver->cuDeviceGetUuid(&uuid, cuda->ordinal) !=
	    GM_CU_SUCCESS)
		return OK(false);
	snprintf(ret_id, 64, BENCH_SET ":GPU-%.16s", uuid.bytes);
	return true;
}

#ifdef HAVE_HIP_OPERATORS
static void with_operators(const char *id)
{
	b = (struct bench){ .backend = &gm_hip_backend };
	if (EQ(bench_open(&b, id), 0)) {
		OK(!b.copies_alone);
		gpu_cases_work(&b);
		gpu_cases_large(&b);
	}
	bench_close(&b);
}
#endif

TAP_CASE_ARGS(argc, argv)
{
	const char *top = getenv("abs_top_builddir");
	char id[64] = "", kernels[512];

	(void)argc;
	stand_in_exec(argv);
	snprintf(kernels, sizeof(kernels), "%s/tests/.libs/operators_hip.so",
		 top ? top : ".");
	if (!getenv("GM_CUDA_LIBRARY"))
		setenv("GPUMAP_FAKE_KERNELS", kernels, 1);
	if (bench_is_open(&b, "hip") && name_card(id)) {
		OK(b.copies_alone);
		gpu_cases_work(&b);
		gpu_cases_large(&b);
		gpu_cases_memory(&b);
	}
	bench_close(&b);
#ifdef HAVE_HIP_OPERATORS
	if (id[0])
		with_operators(id);
#else
	LACK("hip-operators", 1,
	     "gpumap was built without operators of HIP rows");
#endif
	return tap_done();
}

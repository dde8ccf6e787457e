/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Device code: what loads, what is found, how it is launched. */

#include <string.h>

#include "tests/contract/contract.h"
#include "tests/contract/device_code.h"

#define N ((size_t)100003)

static CUmodule module;

static CUfunction function(const char *name)
{
	CUfunction f = NULL;

	GOOD(cu.cuModuleGetFunction(&f, module, name));
	return f;
}

static void broken_code_does_not_load(void)
{
	static const char *const broken[] = {
		CONTRACT_STORE, /* no head */
		CONTRACT_HEAD("6.4", "sm_52") ".visible .entry contract_store(",
		CONTRACT_HEAD("6.4", "sm_52") ".visible .entry ()\n{\n}\n",
	};
	CUmodule m = NULL;

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		EQ(cu.cuModuleLoadData(&m, broken[i]), CUDA_ERROR_INVALID_PTX);
	EQ(cu.cuModuleLoadData(&m, NULL), CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuModuleLoadData(NULL, CONTRACT_KERNELS),
	   CUDA_ERROR_INVALID_VALUE);
	OK(m == NULL);
	GOOD(cu.cuCtxSynchronize());
}

static void code_for_later_drivers_does_not_load(void)
{
	CUmodule m = NULL;

	EQ(cu.cuModuleLoadData(&m,
			       CONTRACT_HEAD("99.9", "sm_52") CONTRACT_STORE),
	   CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	OK(m == NULL);
}

/* Newer than the card by its target, if not by its instructions. */
static void code_for_later_cards_does_not_load(void)
{
	CUmodule m = NULL;
	int major = 0;

	GOOD(cu.cuDeviceGetAttribute(
		&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	if (major >= 9) {
		SKIP(1, "no PTX of old drivers is for cards newer than this");
		return;
	}
	EQ(cu.cuModuleLoadData(&m,
			       CONTRACT_HEAD("7.8", "sm_90") CONTRACT_STORE),
	   CUDA_ERROR_NO_BINARY_FOR_GPU);
	OK(m == NULL);
}

static void what_is_not_there_is_not_found(void)
{
	CUfunction f = NULL;

	EQ(cu.cuModuleGetFunction(&f, module, "contract_nothing"),
	   CUDA_ERROR_NOT_FOUND);
	OK(f == NULL);
	EQ(cu.cuModuleGetFunction(&f, module, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void a_kernel_does_its_work(void)
{
	static uint32_t here[N], there[N];
	CUfunction add = function("contract_add");
	uint64_t n = N - 3;
	CUdeviceptr x = 0, y = 0, to;
	void *params[] = { &to, &x, &n };
	size_t wrong = 0;

	for (size_t i = 0; i < N; i++)
		here[i] = (uint32_t)(i * 2654435761u);
	GOOD(cu.cuMemAlloc_v2(&x, sizeof(here)));
	GOOD(cu.cuMemAlloc_v2(&y, sizeof(here)));
	GOOD(cu.cuMemcpyHtoD_v2(x, here, sizeof(here)));
	GOOD(cu.cuMemcpyHtoD_v2(y, here, sizeof(here)));
	to = y;
	GOOD(cu.cuLaunchKernel(add, 64, 1, 1, 128, 1, 1, 0, NULL, params,
			       NULL));
	/* Parameters were taken with the call. */
	n = 0;
	to = 0;
	GOOD(cu.cuMemcpyDtoH_v2(there, y, sizeof(there)));
	for (size_t i = 0; i < N; i++)
		wrong += there[i] != (i < N - 3 ? 2 : 1) * here[i];
	EQ(wrong, 0);
	GOOD(cu.cuMemFree_v2(x));
	GOOD(cu.cuMemFree_v2(y));
}

static void launches_check_their_arguments(void)
{
	CUfunction store = function("contract_store");
	CUdeviceptr at = 0;
	uint32_t value = 1;
	void *params[] = { &at, &value };

	GOOD(cu.cuMemAlloc_v2(&at, 64));
	EQ(cu.cuLaunchKernel(store, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuLaunchKernel(store, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuLaunchKernel(store, 1, 70000, 1, 1, 1, 1, 0, NULL, params,
			     NULL),
	   CUDA_ERROR_INVALID_VALUE);
	GOOD(cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	GOOD(cu.cuCtxSynchronize());
	GOOD(cu.cuMemFree_v2(at));
}

/* The other way to hand parameters over: all in one buffer. */
static void parameters_may_come_in_a_buffer(void)
{
	CUfunction store = function("contract_store");
	struct {
		CUdeviceptr at;
		uint32_t value;
	} buffer = { 0, 0x600d };
	size_t bytes = sizeof(CUdeviceptr) + sizeof(uint32_t);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer,
			  CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  CU_LAUNCH_PARAM_END };
	uint32_t got = 0;

	GOOD(cu.cuMemAlloc_v2(&buffer.at, 64));
	GOOD(cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	GOOD(cu.cuMemcpyDtoH_v2(&got, buffer.at, 4));
	EQ(got, 0x600d);
	GOOD(cu.cuMemFree_v2(buffer.at));
}

static void a_launch_returns_before_its_kernel(void)
{
	CUfunction spin = function("contract_spin");
	CUstream stream = NULL, other = NULL;
	volatile uint32_t *word = NULL;
	CUdeviceptr seen = 0;
	void *params[] = { &seen };

	GOOD(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	GOOD(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	GOOD(cu.cuMemHostAlloc((void **)&word, 4096, 0));
	*word = 0;
	GOOD(cu.cuMemHostGetDevicePointer_v2(&seen, (void *)word, 0));
	GOOD(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params,
			       NULL));
	EQ(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	GOOD(cu.cuStreamSynchronize(other));
	EQ(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	*word = 1;
	GOOD(cu.cuStreamSynchronize(stream));
	GOOD(cu.cuMemFreeHost((void *)word));
	GOOD(cu.cuStreamDestroy_v2(stream));
	GOOD(cu.cuStreamDestroy_v2(other));
}

static void a_library_serves_any_context(void)
{
	CUlibrary library = NULL;
	CUfunction f = NULL;
	CUkernel kernel = NULL;
	CUdeviceptr at = 0;
	uint32_t value = 91, got = 0;
	void *params[] = { &at, &value };

	if (!cu.cuLibraryLoadData) {
		SKIP(1, "a driver without libraries");
		return;
	}
	GOOD(cu.cuLibraryLoadData(&library, CONTRACT_KERNELS, NULL, NULL, 0,
				  NULL, NULL, 0));
	EQ(cu.cuLibraryGetKernel(&kernel, library, "contract_nothing"),
	   CUDA_ERROR_NOT_FOUND);
	GOOD(cu.cuLibraryGetKernel(&kernel, library, "contract_store"));
	GOOD(cu.cuKernelGetFunction(&f, kernel));
	GOOD(cu.cuMemAlloc_v2(&at, 64));
	GOOD(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	GOOD(cu.cuMemcpyDtoH_v2(&got, at, 4));
	EQ(got, 91);
	value = 92;
	GOOD(cu.cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
			       params, NULL));
	GOOD(cu.cuMemcpyDtoH_v2(&got, at, 4));
	EQ(got, 92);
	GOOD(cu.cuMemFree_v2(at));
	GOOD(cu.cuLibraryUnload(library));
}

static void functions_say_what_they_are(void)
{
	CUfunction add = function("contract_add");
	int value = 0;

	GOOD(cu.cuFuncGetAttribute(
		&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add));
	OK(value >= 128 && value <= 1024);
	OK(function("contract_add") == add);
}

TAP_CASE_ARGS(argc, argv)
{
	if (contract_begin_devices(argv, 1) && contract_context()) {
		broken_code_does_not_load();
		code_for_later_drivers_does_not_load();
		code_for_later_cards_does_not_load();
		if (GOOD(cu.cuModuleLoadData(&module, CONTRACT_KERNELS))) {
			what_is_not_there_is_not_found();
			a_kernel_does_its_work();
			launches_check_their_arguments();
			parameters_may_come_in_a_buffer();
			a_launch_returns_before_its_kernel();
			a_library_serves_any_context();
			functions_say_what_they_are();
			GOOD(cu.cuModuleUnload(module));
		}
		contract_end_context();
	}
	return tap_done();
}

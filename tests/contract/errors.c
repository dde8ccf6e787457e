/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Faults on the device: when they are told, that they stay, what does not
 * happen after them, and who is not touched.  Each in a process of its own,
 * for it is lost afterwards.
 */

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"
#include "tests/contract/device_code.h"

static CUmodule module;
static CUstream stream;
static uint32_t pageable; /* the driver is not told of it */

static bool set_up(void)
{
	CUcontext context;

	return !cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&context, 0) &&
	       !cu.cuCtxSetCurrent(context) &&
	       !cu.cuModuleLoadData(&module, CONTRACT_KERNELS) &&
	       !cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static CUresult launch(const char *name, void **params)
{
	CUfunction f = NULL;
	CUresult result = cu.cuModuleGetFunction(&f, module, name);

	return result ? result
		      : cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream,
					  params, NULL);
}

static CUresult store_at(CUdeviceptr at)
{
	uint32_t value = 1;
	void *params[] = { &at, &value };

	return launch("contract_store", params);
}

/*
 * A child's findings: the error of the fault, whether the launch itself
 * succeeded, whether every later call gives the same error, and whether words
 * and host functions that came after the fault are untouched.
 */
struct finding {
	CUresult launched, error;
	int others, words, calls;
	int reaches_all; /* the device's attribute, and whether it is true */
	int reached;
};

static void count_call(void *data)
{
	++*(atomic_int *)data;
}

static int ask_others(CUresult error)
{
	CUdeviceptr at = 0;
	CUevent event = NULL;
	size_t bytes, total;
	int others = 0;

	others += cu.cuCtxSynchronize() != error;
	others += cu.cuStreamSynchronize(stream) != error;
	others += cu.cuStreamQuery(stream) != error;
	others += cu.cuMemAlloc_v2(&at, 4096) != error;
	others += cu.cuMemGetInfo_v2(&bytes, &total) != error;
	others += cu.cuEventCreate(&event, 0) != error;
	others += cu.cuCtxSynchronize() != error;
	if (!error) {
		cu.cuEventDestroy_v2(event);
		cu.cuMemFree_v2(at);
	}
	return others;
}

/* The process is not lost. */
static bool tear_down(void)
{
	return !cu.cuStreamDestroy_v2(stream) && !cu.cuModuleUnload(module) &&
	       !cu.cuCtxSetCurrent(NULL) && !cu.cuDevicePrimaryCtxRelease_v2(0);
}

static struct finding fault(CUresult (*strike)(void))
{
	static atomic_int calls;
	struct finding found = { .launched = CUDA_ERROR_UNKNOWN };
	_Atomic uint64_t *word = NULL;
	CUdeviceptr seen = 0;

	if (!set_up() || cu.cuMemHostAlloc((void **)&word, 4096, 0) ||
	    cu.cuMemHostGetDevicePointer_v2(&seen, (void *)word, 0))
		return found;
	*word = 0;
	found.launched = strike();
	/* These may or may not be refused already. */
	(void)cu.cuStreamWriteValue64_v2(stream, seen, 1, 0);
	(void)cu.cuLaunchHostFunc(stream, count_call, &calls);
	found.error = cu.cuStreamSynchronize(stream);
	contract_rest_ms(5);
	found.others = ask_others(found.error);
	found.words = *word != 0;
	found.calls = calls;
	cu.cuDeviceGetAttribute(&found.reaches_all,
				CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0);
	found.reached = pageable == 1;
	if (!found.error) {
		found.others += cu.cuMemFreeHost((void *)word) != 0;
		found.others += !tear_down();
	}
	return found;
}

static CUresult strike_nowhere(void)
{
	return store_at(0x10);
}

static CUresult strike_freed(void)
{
	CUdeviceptr at = 0;

	if (cu.cuMemAlloc_v2(&at, (size_t)64 << 20) || cu.cuMemFree_v2(at))
		return CUDA_ERROR_UNKNOWN;
	return store_at(at);
}

/* Mapped, and no device was given access. */
static CUresult strike_without_access(void)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp prop;
	CUdeviceptr at = 0;
	size_t bytes = 0;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	if (cu.cuMemGetAllocationGranularity(
		    &bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ||
	    cu.cuMemCreate(&handle, bytes, &prop, 0) ||
	    cu.cuMemAddressReserve(&at, bytes, 0, 0, 0) ||
	    cu.cuMemMap(at, bytes, 0, handle, 0))
		return CUDA_ERROR_UNKNOWN;
	return store_at(at);
}

static CUresult strike_askew(void)
{
	CUdeviceptr at = 0;

	return cu.cuMemAlloc_v2(&at, 4096) ? CUDA_ERROR_UNKNOWN
					   : store_at(at + 1);
}

static CUresult strike_trap(void)
{
	return launch("contract_trap", NULL);
}

static CUresult strike_pageable(void)
{
	return store_at((CUdeviceptr)(uintptr_t)&pageable);
}

static const struct {
	const char *name;
	CUresult (*strike)(void);
	CUresult error, or_error;
} strikes[] = {
	{ "a store nowhere", strike_nowhere, CUDA_ERROR_ILLEGAL_ADDRESS,
	  CUDA_ERROR_ILLEGAL_ADDRESS },
	{ "a store to freed memory", strike_freed, CUDA_ERROR_ILLEGAL_ADDRESS,
	  CUDA_ERROR_ILLEGAL_ADDRESS },
	{ "a store without access", strike_without_access,
	  CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS },
	{ "a misaligned store", strike_askew, CUDA_ERROR_MISALIGNED_ADDRESS,
	  CUDA_ERROR_MISALIGNED_ADDRESS },
	{ "a trap", strike_trap, CUDA_ERROR_LAUNCH_FAILED,
	  CUDA_ERROR_ILLEGAL_INSTRUCTION },
	{ "a store to pageable memory", strike_pageable,
	  CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS },
};
#define ALWAYS_FAULTS (sizeof(strikes) / sizeof(strikes[0]) - 1)

static int strike_in_child(const char *number, const char *fd)
{
	struct finding found = fault(strikes[atoi(number)].strike);

	return write(atoi(fd), &found, sizeof(found)) != sizeof(found);
}

static bool run_child(int number, struct finding *ret_found)
{
	char text[2][16];
	int pipes[2];
	bool is_told;
	pid_t pid;

	if (pipe(pipes))
		return false;
	snprintf(text[0], sizeof(text[0]), "%d", number);
	snprintf(text[1], sizeof(text[1]), "%d", pipes[1]);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "errors", text[0], text[1],
		      (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	is_told = read(pipes[0], ret_found, sizeof(*ret_found)) ==
		  sizeof(*ret_found);
	close(pipes[0]);
	waitpid(pid, NULL, 0);
	return is_told;
}

static void a_fault_is_told_later_and_stays(void)
{
	for (size_t i = 0; i < ALWAYS_FAULTS; i++) {
		struct finding found = { 0 };

		NOTE("%s", strikes[i].name);
		if (!OK(run_child((int)i, &found)))
			continue;
		EQ(found.launched, CUDA_SUCCESS);
		OK(found.error == strikes[i].error ||
		   found.error == strikes[i].or_error);
		NOTE("error %d", found.error);
		EQ(found.others, 0);
		EQ(found.words, 0);
		EQ(found.calls, 0);
	}
}

/* HMM and ATS: with this plan, the stand-in has them. */
static void an_attribute_tells_what_is_in_reach(void)
{
	const char *const plans[] = { "", "attribute 88 is 1" };
	int n = contract_is_real() ? 1 : 2;

	for (int i = 0; i < n; i++) {
		struct finding found = { 0 };

		if (n > 1)
			setenv("GPUMAP_FAKE_PLAN", plans[i], 1);
		OK(run_child(ALWAYS_FAULTS, &found));
		EQ(found.reached, found.reaches_all);
		EQ(found.error, found.reaches_all ? CUDA_SUCCESS
						  : CUDA_ERROR_ILLEGAL_ADDRESS);
		EQ(found.others, 0);
		if (n > 1)
			EQ(found.reaches_all, i);
	}
	unsetenv("GPUMAP_FAKE_PLAN");
}

/* A context beside the one that dies, in this process all the while. */
static void a_fault_is_its_process_s_alone(void)
{
	struct finding found = { 0 };
	CUdeviceptr at = 0;
	uint32_t got = 0;

	if (!OK(set_up()))
		return;
	GOOD(cu.cuMemAlloc_v2(&at, 4096));
	GOOD(cu.cuMemsetD32_v2(at, 7, 1024));
	OK(run_child(0, &found));
	EQ(found.error, CUDA_ERROR_ILLEGAL_ADDRESS);
	GOOD(store_at(at + 4));
	GOOD(cu.cuStreamSynchronize(stream));
	GOOD(cu.cuMemcpyDtoH_v2(&got, at, 4));
	EQ(got, 7);
	GOOD(cu.cuMemcpyDtoH_v2(&got, at + 4, 4));
	EQ(got, 1);
	GOOD(cu.cuMemFree_v2(at));
	OK(tear_down());
}

/* An error of a call is that call's: nothing is lost by it. */
static void a_wrong_call_is_no_fault(void)
{
	CUdeviceptr at = 0;

	if (!OK(set_up()))
		return;
	EQ(cu.cuMemFree_v2(12345), CUDA_ERROR_INVALID_VALUE);
	EQ(cu.cuMemAlloc_v2(&at, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
	EQ(launch("contract_nothing", NULL), CUDA_ERROR_NOT_FOUND);
	GOOD(cu.cuCtxSynchronize());
	OK(tear_down());
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc == 3)
		return contract_load(argv) ? 1
					   : strike_in_child(argv[1], argv[2]);
	if (contract_begin_devices(argv, 1)) {
		a_fault_is_told_later_and_stays();
		an_attribute_tells_what_is_in_reach();
		a_fault_is_its_process_s_alone();
		a_wrong_call_is_no_fault();
	}
	return tap_done();
}

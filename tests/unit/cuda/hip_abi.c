/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hip_abi: what HIP has as the CUDA driver has it, and what in its own way,
 * against HIP's own header, where that is at hand: numbers, sizes and offsets.
 */

#include "tests/support/tap.h"

#ifdef __has_include
#if __has_include(<hip/hip_runtime_api.h>)
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#define HAVE_HIP_H 1
#endif
#endif

#include "agent/cuda/abi.h"
#include "agent/cuda/driver.h"

#ifdef HAVE_HIP_H
#define SAME(ours, theirs) EQ((intmax_t)(ours), (intmax_t)(theirs))

static void errors(void)
{
	SAME(GM_CU_SUCCESS, hipSuccess);
	SAME(GM_CU_INVALID_VALUE, hipErrorInvalidValue);
	SAME(GM_CU_OUT_OF_MEMORY, hipErrorOutOfMemory);
	SAME(GM_CU_NOT_INITIALIZED, hipErrorNotInitialized);
	SAME(GM_CU_DEINITIALIZED, hipErrorDeinitialized);
	SAME(GM_CU_NO_DEVICE, hipErrorNoDevice);
	SAME(GM_CU_INVALID_DEVICE, hipErrorInvalidDevice);
	SAME(GM_CU_INVALID_IMAGE, hipErrorInvalidImage);
	SAME(GM_CU_INVALID_CONTEXT, hipErrorInvalidContext);
	SAME(GM_CU_NO_BINARY_FOR_GPU, hipErrorNoBinaryForGpu);
	SAME(GM_CU_ECC_UNCORRECTABLE, hipErrorECCNotCorrectable);
	SAME(GM_CU_INVALID_PTX, hipErrorInvalidKernelFile);
	SAME(GM_CU_OPERATING_SYSTEM, hipErrorOperatingSystem);
	SAME(GM_CU_INVALID_HANDLE, hipErrorInvalidHandle);
	SAME(GM_CU_NOT_FOUND, hipErrorNotFound);
	SAME(GM_CU_NOT_READY, hipErrorNotReady);
	SAME(GM_CU_ILLEGAL_ADDRESS, hipErrorIllegalAddress);
	SAME(GM_CU_LAUNCH_OUT_OF_RESOURCES, hipErrorLaunchOutOfResources);
	SAME(GM_CU_LAUNCH_TIMEOUT, hipErrorLaunchTimeOut);
	SAME(GM_CU_CONTEXT_IS_DESTROYED, hipErrorContextIsDestroyed);
	SAME(GM_CU_ASSERT, hipErrorAssert);
	SAME(GM_CU_HOST_MEMORY_ALREADY_REGISTERED,
	     hipErrorHostMemoryAlreadyRegistered);
	SAME(GM_CU_HOST_MEMORY_NOT_REGISTERED, hipErrorHostMemoryNotRegistered);
	SAME(GM_CU_LAUNCH_FAILED, hipErrorLaunchFailure);
	SAME(GM_CU_NOT_SUPPORTED, hipErrorNotSupported);
	SAME(GM_CU_UNKNOWN, hipErrorUnknown);
}

static void attributes(void)
{
#define ATTRIBUTE(ours, theirs) SAME(GM_HIP_##ours, hipDeviceAttribute##theirs)
	ATTRIBUTE(CAN_MAP_HOST_MEMORY, CanMapHostMemory);
	ATTRIBUTE(MEMORY_BUS_WIDTH, MemoryBusWidth);
	ATTRIBUTE(MEMORY_CLOCK_RATE, MemoryClockRate);
	ATTRIBUTE(MULTIPROCESSOR_COUNT, MultiprocessorCount);
	ATTRIBUTE(CAN_USE_STREAM_WAIT_VALUE, CanUseStreamWaitValue);
#if HIP_VERSION_MAJOR >= 6
	ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		  VirtualMemoryManagementSupported);
#endif
#undef ATTRIBUTE
}

static void flags(void)
{
	SAME((intptr_t)GM_HIP_LAUNCH_PARAM_END, (intptr_t)HIP_LAUNCH_PARAM_END);
	SAME((intptr_t)GM_CU_LAUNCH_PARAM_BUFFER_POINTER,
	     (intptr_t)HIP_LAUNCH_PARAM_BUFFER_POINTER);
	SAME((intptr_t)GM_CU_LAUNCH_PARAM_BUFFER_SIZE,
	     (intptr_t)HIP_LAUNCH_PARAM_BUFFER_SIZE);
	SAME(GM_CU_CTX_SCHED_BLOCKING_SYNC, hipDeviceScheduleBlockingSync);
	SAME(GM_CU_STREAM_NON_BLOCKING, hipStreamNonBlocking);
	SAME(GM_CU_EVENT_BLOCKING_SYNC, hipEventBlockingSync);
	SAME(GM_CU_EVENT_DISABLE_TIMING, hipEventDisableTiming);
	SAME(GM_CU_MEMHOSTALLOC_PORTABLE, hipHostMallocPortable);
	SAME(GM_CU_MEMHOSTALLOC_DEVICEMAP, hipHostMallocMapped);
	SAME(GM_CU_MEMHOSTREGISTER_PORTABLE, hipHostRegisterPortable);
	SAME(GM_CU_MEMHOSTREGISTER_DEVICEMAP, hipHostRegisterMapped);
	SAME(GM_CU_MEM_ALLOCATION_TYPE_PINNED, hipMemAllocationTypePinned);
	SAME(GM_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	     hipMemHandleTypePosixFileDescriptor);
	SAME(GM_CU_MEM_LOCATION_TYPE_DEVICE, hipMemLocationTypeDevice);
	SAME(GM_CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	     hipMemAccessFlagsProtReadWrite);
	SAME(GM_CU_MEM_ALLOC_GRANULARITY_MINIMUM,
	     hipMemAllocationGranularityMinimum);
}

static void structs(void)
{
	SAME(sizeof(gm_cu_result), sizeof(hipError_t));
	SAME(sizeof(gm_cu_ptr), sizeof(hipDeviceptr_t));
	SAME(sizeof(gm_cu_handle), sizeof(hipMemGenericAllocationHandle_t));
	SAME(sizeof(int), sizeof(hipDevice_t));
	SAME(sizeof(struct gm_cu_uuid), sizeof(hipUUID));
	SAME(sizeof(struct gm_cu_location), sizeof(hipMemLocation));
	SAME(sizeof(struct gm_cu_access), sizeof(hipMemAccessDesc));
	SAME(offsetof(struct gm_cu_access, flags),
	     offsetof(hipMemAccessDesc, flags));
	OK(sizeof(struct gm_cu_memory) >= sizeof(hipMemAllocationProp));
#if HIP_VERSION_MAJOR >= 6
	SAME(offsetof(struct gm_cu_memory, type),
	     offsetof(hipMemAllocationProp, type));
	SAME(offsetof(struct gm_cu_memory, location),
	     offsetof(hipMemAllocationProp, location));
	SAME(offsetof(struct gm_cu_memory, windows),
	     offsetof(hipMemAllocationProp, win32HandleMetaData));
#endif
}
#endif /* HAVE_HIP_H */

TAP_CASE()
{
#ifdef HAVE_HIP_H
	errors();
	attributes();
	flags();
	structs();
#else
	SKIP(1, "no hip/hip_runtime_api.h");
#endif
	return tap_done();
}

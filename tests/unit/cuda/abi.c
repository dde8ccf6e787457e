/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Our declarations of the driver and of NVML against NVIDIA's own, where their
 * headers are at hand: every number, size, offset and signature.
 *
 * The test checks them when it runs and not when it compiles: a toolkit that
 * does not agree with us must not keep a user from building.
 */

#include "tests/support/tap.h"

#ifdef HAVE_CUDA_H
#include <cuda.h>
#endif
#ifdef __has_include
#if defined(HAVE_CUDA_H) && __has_include(<cudaTypedefs.h>)
#include <cudaTypedefs.h>
#define HAVE_CUDATYPEDEFS_H 1
#endif
#if __has_include(<nvml.h>)
#include <nvml.h>
#define HAVE_NVML_H 1
#endif
#endif

#include "agent/cuda/abi.h"
#include "agent/cuda/cuerror.h"
#include "agent/cuda/nvml.h"

#define SAME(ours, theirs) EQ((intmax_t)(ours), (intmax_t)(theirs))
#define SIZE(ours, theirs) EQ(sizeof(ours), sizeof(theirs))
#define MEMBER(ours, our_member, theirs, their_member)   \
	do {                                             \
		EQ(offsetof(ours, our_member),           \
		   offsetof(theirs, their_member));      \
		EQ(sizeof(((ours *)0)->our_member),      \
		   sizeof(((theirs *)0)->their_member)); \
	} while (0)

#ifdef HAVE_CUDA_H
static void driver_errors(void)
{
#define ERROR(name) SAME(GM_CU_##name, CUDA_ERROR_##name)
	SAME(GM_CU_SUCCESS, CUDA_SUCCESS);
	ERROR(INVALID_VALUE);
	ERROR(OUT_OF_MEMORY);
	ERROR(NOT_INITIALIZED);
	ERROR(DEINITIALIZED);
	ERROR(STUB_LIBRARY);
	ERROR(DEVICE_UNAVAILABLE);
	ERROR(NO_DEVICE);
	ERROR(INVALID_DEVICE);
	ERROR(DEVICE_NOT_LICENSED);
	ERROR(INVALID_IMAGE);
	ERROR(INVALID_CONTEXT);
	ERROR(NO_BINARY_FOR_GPU);
	ERROR(ECC_UNCORRECTABLE);
	ERROR(INVALID_PTX);
	ERROR(NVLINK_UNCORRECTABLE);
	ERROR(JIT_COMPILER_NOT_FOUND);
	ERROR(UNSUPPORTED_PTX_VERSION);
	ERROR(JIT_COMPILATION_DISABLED);
	ERROR(OPERATING_SYSTEM);
	ERROR(INVALID_HANDLE);
	ERROR(NOT_FOUND);
	ERROR(NOT_READY);
	ERROR(ILLEGAL_ADDRESS);
	ERROR(LAUNCH_OUT_OF_RESOURCES);
	ERROR(LAUNCH_TIMEOUT);
	ERROR(CONTEXT_IS_DESTROYED);
	ERROR(ASSERT);
	ERROR(HOST_MEMORY_ALREADY_REGISTERED);
	ERROR(HOST_MEMORY_NOT_REGISTERED);
	ERROR(HARDWARE_STACK_ERROR);
	ERROR(ILLEGAL_INSTRUCTION);
	ERROR(MISALIGNED_ADDRESS);
	ERROR(INVALID_ADDRESS_SPACE);
	ERROR(INVALID_PC);
	ERROR(LAUNCH_FAILED);
	ERROR(NOT_PERMITTED);
	ERROR(NOT_SUPPORTED);
	ERROR(SYSTEM_NOT_READY);
	ERROR(SYSTEM_DRIVER_MISMATCH);
	ERROR(COMPAT_NOT_SUPPORTED_ON_DEVICE);
	ERROR(MPS_CONNECTION_FAILED);
	ERROR(MPS_RPC_FAILURE);
	ERROR(MPS_SERVER_NOT_READY);
	ERROR(MPS_MAX_CLIENTS_REACHED);
	ERROR(MPS_MAX_CONNECTIONS_REACHED);
	ERROR(MPS_CLIENT_TERMINATED);
	ERROR(TIMEOUT);
	ERROR(EXTERNAL_DEVICE);
	ERROR(UNKNOWN);
#if CUDA_VERSION >= 13000
	ERROR(CALL_REQUIRES_NEWER_DRIVER);
	ERROR(CONTAINED);
	ERROR(TENSOR_MEMORY_LEAK);
#endif
#undef ERROR
}

static void driver_attributes(void)
{
#define ATTRIBUTE(name) SAME(GM_CU_##name, CU_DEVICE_ATTRIBUTE_##name)
	ATTRIBUTE(MAX_THREADS_PER_BLOCK);
	ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK);
	ATTRIBUTE(WARP_SIZE);
	ATTRIBUTE(MULTIPROCESSOR_COUNT);
	ATTRIBUTE(KERNEL_EXEC_TIMEOUT);
	ATTRIBUTE(INTEGRATED);
	ATTRIBUTE(CAN_MAP_HOST_MEMORY);
	ATTRIBUTE(COMPUTE_MODE);
	ATTRIBUTE(ECC_ENABLED);
	ATTRIBUTE(PCI_BUS_ID);
	ATTRIBUTE(PCI_DEVICE_ID);
	ATTRIBUTE(MEMORY_CLOCK_RATE);
	ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH);
	ATTRIBUTE(L2_CACHE_SIZE);
	ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR);
	ATTRIBUTE(ASYNC_ENGINE_COUNT);
	ATTRIBUTE(UNIFIED_ADDRESSING);
	ATTRIBUTE(PCI_DOMAIN_ID);
	ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR);
	ATTRIBUTE(COMPUTE_CAPABILITY_MINOR);
	ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED);
	ATTRIBUTE(PAGEABLE_MEMORY_ACCESS);
	ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
	ATTRIBUTE(HOST_REGISTER_SUPPORTED);
	ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	ATTRIBUTE(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
	ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR);
	ATTRIBUTE(READ_ONLY_HOST_REGISTER_SUPPORTED);
	ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS);
#if CUDA_VERSION >= 12030
	ATTRIBUTE(NUMA_CONFIG);
	ATTRIBUTE(NUMA_ID);
	ATTRIBUTE(MPS_ENABLED);
	ATTRIBUTE(HOST_NUMA_ID);
#endif
#undef ATTRIBUTE
}

static void driver_flags(void)
{
#define FLAG(name) SAME(GM_##name, name)
	FLAG(CU_COMPUTEMODE_DEFAULT);
	FLAG(CU_COMPUTEMODE_PROHIBITED);
	FLAG(CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
	FLAG(CU_GET_PROC_ADDRESS_DEFAULT);
	FLAG(CU_CTX_SCHED_AUTO);
	FLAG(CU_CTX_SCHED_SPIN);
	FLAG(CU_CTX_SCHED_YIELD);
	FLAG(CU_CTX_SCHED_BLOCKING_SYNC);
	FLAG(CU_CTX_MAP_HOST);
	FLAG(CU_STREAM_NON_BLOCKING);
	FLAG(CU_EVENT_BLOCKING_SYNC);
	FLAG(CU_EVENT_DISABLE_TIMING);
	FLAG(CU_MEMHOSTALLOC_PORTABLE);
	FLAG(CU_MEMHOSTALLOC_DEVICEMAP);
	FLAG(CU_MEMHOSTREGISTER_PORTABLE);
	FLAG(CU_MEMHOSTREGISTER_DEVICEMAP);
	FLAG(CU_MEMHOSTREGISTER_READ_ONLY);
	FLAG(CU_JIT_ERROR_LOG_BUFFER);
	FLAG(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
	FLAG(CU_MEM_ALLOCATION_TYPE_PINNED);
	FLAG(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	FLAG(CU_MEM_LOCATION_TYPE_DEVICE);
	FLAG(CU_MEM_ACCESS_FLAGS_PROT_READ);
	FLAG(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	FLAG(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	FLAG(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	FLAG(CU_STREAM_WRITE_VALUE_DEFAULT);
#if CUDA_VERSION >= 12000
	SAME(GM_CU_SYMBOL_FOUND, CU_GET_PROC_ADDRESS_SUCCESS);
	SAME(GM_CU_SYMBOL_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	SAME(GM_CU_SYMBOL_VERSION_NOT_SUFFICIENT,
	     CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
#endif
#if CUDA_VERSION >= 12080
	FLAG(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
	FLAG(CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
	FLAG(CU_MEMCPY_FLAG_DEFAULT);
	FLAG(CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
#endif
#undef FLAG
}

static void driver_structs(void)
{
	SIZE(gm_cu_result, CUresult);
	SIZE(gm_cu_ptr, CUdeviceptr);
	SIZE(gm_cu_handle, CUmemGenericAllocationHandle);
	SIZE(int, CUdevice);
	SIZE(struct gm_cu_uuid, CUuuid);

	SIZE(struct gm_cu_location, CUmemLocation);
	MEMBER(struct gm_cu_location, type, CUmemLocation, type);
	MEMBER(struct gm_cu_location, id, CUmemLocation, id);

#define PROP(ours, theirs) \
	MEMBER(struct gm_cu_memory, ours, CUmemAllocationProp, theirs)
	SIZE(struct gm_cu_memory, CUmemAllocationProp);
	PROP(type, type);
	PROP(handles, requestedHandleTypes);
	PROP(location, location);
	PROP(windows, win32HandleMetaData);
	PROP(compression, allocFlags.compressionType);
	PROP(rdma, allocFlags.gpuDirectRDMACapable);
	PROP(usage, allocFlags.usage);
	PROP(reserved, allocFlags.reserved);
#undef PROP

	SIZE(struct gm_cu_access, CUmemAccessDesc);
	MEMBER(struct gm_cu_access, location, CUmemAccessDesc, location);
	MEMBER(struct gm_cu_access, flags, CUmemAccessDesc, flags);

#if CUDA_VERSION >= 12080
#define COPY(ours, theirs) \
	MEMBER(struct gm_cu_copy_attributes, ours, CUmemcpyAttributes, theirs)
	SIZE(struct gm_cu_copy_attributes, CUmemcpyAttributes);
	COPY(order, srcAccessOrder);
	COPY(source, srcLocHint);
	COPY(destination, dstLocHint);
	COPY(flags, flags);
#undef COPY
#endif
}

/* From here on, our structs in a signature stand for the driver's. */
#define gm_cu_uuid            CUuuid_st
#define gm_cu_location        CUmemLocation_st
#define gm_cu_memory          CUmemAllocationProp_st
#define gm_cu_access          CUmemAccessDesc_st
#define gm_cu_copy_attributes CUmemcpyAttributes_st

static void driver_signatures(void)
{
#ifndef HAVE_CUDATYPEDEFS_H
	SKIP(1, "signatures: no cudaTypedefs.h");
#else
/* The header renames functions: their names may be used up in one go only. */
#define TYPE(name, theirs, arguments)                                     \
	tap_check(__builtin_types_compatible_p(gm_cu_result(*) arguments, \
					       theirs),                   \
		  name " has our arguments", __FILE__, __LINE__)
#define TYPE_CORE     TYPE
#define TYPE_REGISTER TYPE
#define TYPE_VMM      TYPE
#define TYPE_MEMOPS   TYPE
#define TYPE_LIBRARY  TYPE
#if CUDA_VERSION >= 12080
#define TYPE_BATCH TYPE
#else
#define TYPE_BATCH(name, theirs, arguments) \
	tap_skip(1, "this toolkit is older than CUDA 12.8")
#endif
#if CUDA_VERSION >= 12010
#define TYPE_FLAGS TYPE
#else
#define TYPE_FLAGS(name, theirs, arguments) \
	tap_skip(1, "this toolkit is older than CUDA 12.1")
#endif
#define SYMBOL(group, name, version, hip, arguments) \
	TYPE_##group(#name, PFN_##name##_v##version, arguments);
#include "agent/cuda/driver_symbols.h"
	OK(__builtin_types_compatible_p(gm_cu_get_proc_address *,
					PFN_cuGetProcAddress_v12000));
#endif
}
#endif /* HAVE_CUDA_H */

#ifdef HAVE_NVML_H
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void nvml_errors(void)
{
#define ERROR(name) SAME(GM_NVML_##name, NVML_ERROR_##name)
	SAME(GM_NVML_SUCCESS, NVML_SUCCESS);
	ERROR(UNINITIALIZED);
	ERROR(INVALID_ARGUMENT);
	ERROR(NOT_SUPPORTED);
	ERROR(NO_PERMISSION);
	ERROR(ALREADY_INITIALIZED);
	ERROR(NOT_FOUND);
	ERROR(INSUFFICIENT_SIZE);
	ERROR(INSUFFICIENT_POWER);
	ERROR(DRIVER_NOT_LOADED);
	ERROR(TIMEOUT);
	ERROR(IRQ_ISSUE);
	ERROR(LIBRARY_NOT_FOUND);
	ERROR(FUNCTION_NOT_FOUND);
	ERROR(CORRUPTED_INFOROM);
	ERROR(GPU_IS_LOST);
	ERROR(RESET_REQUIRED);
	ERROR(OPERATING_SYSTEM);
	ERROR(LIB_RM_VERSION_MISMATCH);
	ERROR(IN_USE);
	ERROR(MEMORY);
	ERROR(NO_DATA);
	ERROR(VGPU_ECC_NOT_SUPPORTED);
	ERROR(INSUFFICIENT_RESOURCES);
	ERROR(FREQ_NOT_SUPPORTED);
	ERROR(ARGUMENT_VERSION_MISMATCH);
	ERROR(DEPRECATED);
	ERROR(UNKNOWN);
#if HAVE_DECL_NVML_ERROR_NOT_READY
	ERROR(NOT_READY);
#endif
#if HAVE_DECL_NVML_ERROR_GPU_NOT_FOUND
	ERROR(GPU_NOT_FOUND);
#endif
#if HAVE_DECL_NVML_ERROR_INVALID_STATE
	ERROR(INVALID_STATE);
#endif
#undef ERROR
}

static void nvml_flags(void)
{
#define FLAG(name) SAME(GM_NVML_##name, NVML_##name)
	FLAG(TEMPERATURE_GPU);
	FLAG(FEATURE_ENABLED);
	FLAG(COMPUTEMODE_DEFAULT);
	FLAG(COMPUTEMODE_PROHIBITED);
	FLAG(COMPUTEMODE_EXCLUSIVE_PROCESS);
	FLAG(P2P_STATUS_OK);
	FLAG(TOPOLOGY_INTERNAL);
	FLAG(TOPOLOGY_SINGLE);
	FLAG(TOPOLOGY_MULTIPLE);
	FLAG(TOPOLOGY_HOSTBRIDGE);
	FLAG(TOPOLOGY_NODE);
	FLAG(TOPOLOGY_SYSTEM);
#undef FLAG
	SAME(GM_NVML_P2P_READ, NVML_P2P_CAPS_INDEX_READ);
	SAME(GM_NVML_P2P_WRITE, NVML_P2P_CAPS_INDEX_WRITE);
	SAME(GM_NVML_P2P_NVLINK, NVML_P2P_CAPS_INDEX_NVLINK);
	SAME(GM_NVML_P2P_ATOMICS, NVML_P2P_CAPS_INDEX_ATOMICS);
	SAME(GM_NVML_VALUE_UNSIGNED_INT, NVML_VALUE_TYPE_UNSIGNED_INT);
	SAME(GM_NVML_EVENT_SINGLE_BIT_ECC, nvmlEventTypeSingleBitEccError);
	SAME(GM_NVML_EVENT_DOUBLE_BIT_ECC, nvmlEventTypeDoubleBitEccError);
	SAME(GM_NVML_EVENT_XID, nvmlEventTypeXidCriticalError);
#ifdef nvmlEventTypeGpuRecoveryAction
	SAME(GM_NVML_EVENT_UNAVAILABLE, nvmlEventTypeGpuUnavailableError);
	SAME(GM_NVML_EVENT_RECOVERY, nvmlEventTypeGpuRecoveryAction);
#endif
#ifdef NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
	SAME(GM_NVML_FIELD_RECOVERY_ACTION,
	     NVML_FI_DEV_GET_GPU_RECOVERY_ACTION);
	SAME(GM_NVML_RECOVERY_NONE, NVML_GPU_RECOVERY_ACTION_NONE);
	SAME(GM_NVML_RECOVERY_GPU_RESET, NVML_GPU_RECOVERY_ACTION_GPU_RESET);
	SAME(GM_NVML_RECOVERY_NODE_REBOOT,
	     NVML_GPU_RECOVERY_ACTION_NODE_REBOOT);
	SAME(GM_NVML_RECOVERY_DRAIN_P2P, NVML_GPU_RECOVERY_ACTION_DRAIN_P2P);
	SAME(GM_NVML_RECOVERY_DRAIN_AND_RESET,
	     NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET);
#endif
	OK(GM_NVML_UUID_BYTES >= NVML_DEVICE_UUID_V2_BUFFER_SIZE);
	OK(GM_NVML_NAME_BYTES >= NVML_DEVICE_NAME_V2_BUFFER_SIZE);
}

static void nvml_structs(void)
{
#define PCI(ours, theirs) \
	MEMBER(struct gm_nvml_pci, ours, nvmlPciInfo_t, theirs)
	SIZE(struct gm_nvml_pci, nvmlPciInfo_t);
	PCI(legacy_id, busIdLegacy);
	PCI(domain, domain);
	PCI(bus, bus);
	PCI(device, device);
	PCI(device_id, pciDeviceId);
	PCI(subsystem_id, pciSubSystemId);
	PCI(id, busId);
#undef PCI
#define MEMORY(ours) MEMBER(struct gm_nvml_memory, ours, nvmlMemory_t, ours)
	SIZE(struct gm_nvml_memory, nvmlMemory_t);
	MEMORY(total);
	MEMORY(free);
	MEMORY(used);
#undef MEMORY
#define MEMORY(ours) \
	MEMBER(struct gm_nvml_memory_v2, ours, nvmlMemory_v2_t, ours)
	SIZE(struct gm_nvml_memory_v2, nvmlMemory_v2_t);
	MEMORY(version);
	MEMORY(total);
	MEMORY(reserved);
	MEMORY(free);
	MEMORY(used);
#undef MEMORY
	SAME(GM_NVML_MEMORY_V2, nvmlMemory_v2);
}

static void nvml_answers(void)
{
	SIZE(struct gm_nvml_utilisation, nvmlUtilization_t);
	MEMBER(struct gm_nvml_utilisation, gpu, nvmlUtilization_t, gpu);
	MEMBER(struct gm_nvml_utilisation, memory, nvmlUtilization_t, memory);
#define OF(ours, theirs) \
	MEMBER(struct gm_nvml_attributes, ours, nvmlDeviceAttributes_t, theirs)
	SIZE(struct gm_nvml_attributes, nvmlDeviceAttributes_t);
	OF(multiprocessors, multiprocessorCount);
	OF(copy_engines, sharedCopyEngineCount);
	OF(decoders, sharedDecoderCount);
	OF(encoders, sharedEncoderCount);
	OF(jpeg_units, sharedJpegCount);
	OF(ofa_units, sharedOfaCount);
	OF(gpu_slices, gpuInstanceSliceCount);
	OF(compute_slices, computeInstanceSliceCount);
	OF(memory_mib, memorySizeMB);
#undef OF
#define OF(ours, theirs) \
	MEMBER(struct gm_nvml_field, ours, nvmlFieldValue_t, theirs)
	SIZE(struct gm_nvml_field, nvmlFieldValue_t);
	OF(field, fieldId);
	OF(scope, scopeId);
	OF(timestamp_us, timestamp);
	OF(latency_us, latencyUsec);
	OF(type, valueType);
	OF(result, nvmlReturn);
	OF(value, value);
	OF(value.u32, value.uiVal);
#undef OF
#define OF(ours, theirs) \
	MEMBER(struct gm_nvml_event, ours, nvmlEventData_t, theirs)
	SIZE(struct gm_nvml_event, nvmlEventData_t);
	OF(device, device);
	OF(type, eventType);
	OF(data, eventData);
	OF(gpu_instance, gpuInstanceId);
	OF(compute_instance, computeInstanceId);
#undef OF
#define OF(ours, theirs) \
	MEMBER(struct gm_nvml_process, ours, nvmlProcessInfo_t, theirs)
	SIZE(struct gm_nvml_process, nvmlProcessInfo_t);
	OF(pid, pid);
	OF(bytes, usedGpuMemory);
	OF(gpu_instance, gpuInstanceId);
	OF(compute_instance, computeInstanceId);
#undef OF
}

/* The struct behind nvmlProcessInfo_t has another tag in each version of the
 * header, and a signature is compared by tags: here by our own. */
static void nvml_processes(void)
{
	typedef nvmlReturn_t processes(nvmlDevice_t, unsigned int *,
				       nvmlProcessInfo_t *);

	OK(__builtin_types_compatible_p(
		processes,
		__typeof__(nvmlDeviceGetComputeRunningProcesses_v3)));
}

#define gm_nvml_pci         nvmlPciInfo_st
#define gm_nvml_memory      nvmlMemory_st
#define gm_nvml_memory_v2   nvmlMemory_v2_st
#define gm_nvml_utilisation nvmlUtilization_st
#define gm_nvml_attributes  nvmlDeviceAttributes_st
#define gm_nvml_field       nvmlFieldValue_st
#define gm_nvml_event       nvmlEventData_st

#if !HAVE_DECL_NVMLDEVICEGETNUMANODEID
/* An older header has none to compare with. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node);
#endif

gm_nvml_result list_processes(struct nvmlDevice_st *dev, unsigned int *n,
			      struct gm_nvml_process *ret_processes);
#define nvmlDeviceGetComputeRunningProcesses_v3 list_processes

static void nvml_signatures(void)
{
#define SYMBOL(group, name, arguments)                               \
	OK(__builtin_types_compatible_p(gm_nvml_result(*) arguments, \
					__typeof__(&name)));
#include "agent/cuda/nvml_symbols.h"
}
#endif /* HAVE_NVML_H */

TAP_CASE()
{
#ifdef HAVE_CUDA_H
	driver_errors();
	driver_attributes();
	driver_flags();
	driver_structs();
	driver_signatures();
#else
	SKIP(1, "driver: no cuda.h");
#endif
#ifdef HAVE_NVML_H
	nvml_errors();
	nvml_flags();
	nvml_structs();
	nvml_answers();
	nvml_processes();
	nvml_signatures();
#else
	SKIP(1, "NVML: no nvml.h");
#endif
	return tap_done();
}

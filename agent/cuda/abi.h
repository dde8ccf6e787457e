/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * abi - what of the CUDA Driver API gpumap calls, as the driver has it in
 * memory.
 *
 * Declared here so that CUDA support is compiled in everywhere and no toolkit
 * is ever needed: the ABI of a versioned symbol does not change, the headers
 * that describe it come and go.  Where <cuda.h> is at hand, tests/unit/cuda/abi
 * compares every number, size, offset and signature below with it.
 *
 * Handles keep the driver's tags, so that a pointer is the same type on both
 * sides.  Enumerations travel as unsigned int, which is what the driver's
 * compile to.  Names that begin with GM_CU_ are the driver's with GM_ before
 * them.
 */
#ifndef GM_ABI_H
#define GM_ABI_H

#include <stddef.h>
#include <stdint.h>

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUkern_st;
struct CUlib_st;
struct CUmod_st;
struct CUstream_st;

typedef unsigned int gm_cu_result;       /* enum gm_cu_error, and others */
typedef unsigned long long gm_cu_ptr;    /* device memory */
typedef unsigned long long gm_cu_handle; /* an allocation of cuMemCreate */

/* Results that gpumap tells apart; cuerror.c has the names of all. */
enum gm_cu_error {
	GM_CU_SUCCESS = 0,
	GM_CU_INVALID_VALUE = 1,
	GM_CU_OUT_OF_MEMORY = 2,
	GM_CU_NOT_INITIALIZED = 3,
	GM_CU_DEINITIALIZED = 4,
	GM_CU_STUB_LIBRARY = 34,
	GM_CU_CALL_REQUIRES_NEWER_DRIVER = 36,
	GM_CU_DEVICE_UNAVAILABLE = 46,
	GM_CU_NO_DEVICE = 100,
	GM_CU_INVALID_DEVICE = 101,
	GM_CU_DEVICE_NOT_LICENSED = 102,
	GM_CU_INVALID_IMAGE = 200,
	GM_CU_INVALID_CONTEXT = 201,
	GM_CU_NO_BINARY_FOR_GPU = 209,
	GM_CU_ECC_UNCORRECTABLE = 214,
	GM_CU_INVALID_PTX = 218,
	GM_CU_NVLINK_UNCORRECTABLE = 220,
	GM_CU_JIT_COMPILER_NOT_FOUND = 221,
	GM_CU_UNSUPPORTED_PTX_VERSION = 222,
	GM_CU_JIT_COMPILATION_DISABLED = 223,
	GM_CU_CONTAINED = 226,
	GM_CU_OPERATING_SYSTEM = 304,
	GM_CU_INVALID_HANDLE = 400,
	GM_CU_NOT_FOUND = 500,
	GM_CU_NOT_READY = 600,
	GM_CU_ILLEGAL_ADDRESS = 700,
	GM_CU_LAUNCH_OUT_OF_RESOURCES = 701,
	GM_CU_LAUNCH_TIMEOUT = 702,
	GM_CU_CONTEXT_IS_DESTROYED = 709,
	GM_CU_ASSERT = 710,
	GM_CU_HOST_MEMORY_ALREADY_REGISTERED = 712,
	GM_CU_HOST_MEMORY_NOT_REGISTERED = 713,
	GM_CU_HARDWARE_STACK_ERROR = 714,
	GM_CU_ILLEGAL_INSTRUCTION = 715,
	GM_CU_MISALIGNED_ADDRESS = 716,
	GM_CU_INVALID_ADDRESS_SPACE = 717,
	GM_CU_INVALID_PC = 718,
	GM_CU_LAUNCH_FAILED = 719,
	GM_CU_TENSOR_MEMORY_LEAK = 721,
	GM_CU_NOT_PERMITTED = 800,
	GM_CU_NOT_SUPPORTED = 801,
	GM_CU_SYSTEM_NOT_READY = 802,
	GM_CU_SYSTEM_DRIVER_MISMATCH = 803,
	GM_CU_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
	GM_CU_MPS_CONNECTION_FAILED = 805,
	GM_CU_MPS_RPC_FAILURE = 806,
	GM_CU_MPS_SERVER_NOT_READY = 807,
	GM_CU_MPS_MAX_CLIENTS_REACHED = 808,
	GM_CU_MPS_MAX_CONNECTIONS_REACHED = 809,
	GM_CU_MPS_CLIENT_TERMINATED = 810,
	GM_CU_TIMEOUT = 909,
	GM_CU_EXTERNAL_DEVICE = 911,
	GM_CU_UNKNOWN = 999
};

/* For cuDeviceGetAttribute. */
enum gm_cu_attribute {
	GM_CU_MAX_THREADS_PER_BLOCK = 1,
	GM_CU_MAX_SHARED_MEMORY_PER_BLOCK = 8,
	GM_CU_WARP_SIZE = 10,
	GM_CU_MULTIPROCESSOR_COUNT = 16,
	GM_CU_KERNEL_EXEC_TIMEOUT = 17,
	GM_CU_INTEGRATED = 18,
	GM_CU_CAN_MAP_HOST_MEMORY = 19,
	GM_CU_COMPUTE_MODE = 20,
	GM_CU_ECC_ENABLED = 32,
	GM_CU_PCI_BUS_ID = 33,
	GM_CU_PCI_DEVICE_ID = 34,
	GM_CU_MEMORY_CLOCK_RATE = 36,
	GM_CU_GLOBAL_MEMORY_BUS_WIDTH = 37,
	GM_CU_L2_CACHE_SIZE = 38,
	GM_CU_MAX_THREADS_PER_MULTIPROCESSOR = 39,
	GM_CU_ASYNC_ENGINE_COUNT = 40,
	GM_CU_UNIFIED_ADDRESSING = 41,
	GM_CU_PCI_DOMAIN_ID = 50,
	GM_CU_COMPUTE_CAPABILITY_MAJOR = 75,
	GM_CU_COMPUTE_CAPABILITY_MINOR = 76,
	GM_CU_STREAM_PRIORITIES_SUPPORTED = 78,
	GM_CU_PAGEABLE_MEMORY_ACCESS = 88,
	GM_CU_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
	GM_CU_HOST_REGISTER_SUPPORTED = 99,
	GM_CU_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
	GM_CU_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
	GM_CU_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
	GM_CU_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
	GM_CU_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
	GM_CU_NUMA_CONFIG = 130,
	GM_CU_NUMA_ID = 131,
	GM_CU_MPS_ENABLED = 133,
	GM_CU_HOST_NUMA_ID = 134
};

/* HIP's, for hipDeviceGetAttribute: those that CUDA's are mapped to. */
enum gm_hip_attribute {
	GM_HIP_CAN_MAP_HOST_MEMORY = 3,
	GM_HIP_MEMORY_BUS_WIDTH = 59,
	GM_HIP_MEMORY_CLOCK_RATE = 60,
	GM_HIP_MULTIPROCESSOR_COUNT = 63,
	GM_HIP_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 89,
	GM_HIP_CAN_USE_STREAM_WAIT_VALUE = 10013
};

enum gm_cu_compute_mode {
	GM_CU_COMPUTEMODE_DEFAULT = 0,
	GM_CU_COMPUTEMODE_PROHIBITED = 2,
	GM_CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3
};

/* Flags, each beside the call that takes it. */
enum {
	GM_CU_GET_PROC_ADDRESS_DEFAULT = 0, /* cuGetProcAddress */
	GM_CU_CTX_SCHED_AUTO = 0x0,         /* cuDevicePrimaryCtxSetFlags */
	GM_CU_CTX_SCHED_SPIN = 0x1,
	GM_CU_CTX_SCHED_YIELD = 0x2,
	GM_CU_CTX_SCHED_BLOCKING_SYNC = 0x4,
	GM_CU_CTX_MAP_HOST = 0x8,
	GM_CU_STREAM_NON_BLOCKING = 0x1, /* cuStreamCreateWithPriority */
	GM_CU_EVENT_BLOCKING_SYNC = 0x1, /* cuEventCreate */
	GM_CU_EVENT_DISABLE_TIMING = 0x2,
	GM_CU_MEMHOSTALLOC_PORTABLE = 0x1, /* cuMemHostAlloc */
	GM_CU_MEMHOSTALLOC_DEVICEMAP = 0x2,
	GM_CU_MEMHOSTREGISTER_PORTABLE = 0x1, /* cuMemHostRegister */
	GM_CU_MEMHOSTREGISTER_DEVICEMAP = 0x2,
	GM_CU_MEMHOSTREGISTER_READ_ONLY = 0x8
};

/* Status that cuGetProcAddress() reports beside its result. */
enum gm_cu_symbol_status {
	GM_CU_SYMBOL_FOUND = 0,
	GM_CU_SYMBOL_NOT_FOUND = 1,
	GM_CU_SYMBOL_VERSION_NOT_SUFFICIENT = 2
};

/* Options of cuModuleLoadDataEx that gpumap sets. */
enum gm_cu_jit_option {
	GM_CU_JIT_ERROR_LOG_BUFFER = 5,
	GM_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
};

/* For cuLaunchKernel(): parameters as one buffer. */
#define GM_CU_LAUNCH_PARAM_END            ((void *)0)
#define GM_CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define GM_CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)2)
#define GM_HIP_LAUNCH_PARAM_END           ((void *)3)

struct gm_cu_uuid {
	char bytes[16];
};

/* ---- memory that is created, mapped and exported ------------------------ */

enum {
	GM_CU_MEM_ALLOCATION_TYPE_PINNED = 1,
	GM_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
	GM_CU_MEM_LOCATION_TYPE_DEVICE = 1,
	GM_CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	GM_CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
	GM_CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
	GM_CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
};

struct gm_cu_location {
	unsigned int type; /* GM_CU_MEM_LOCATION_TYPE_DEVICE */
	int id;            /* CUDA ordinal */
};

struct gm_cu_memory {
	unsigned int type;    /* GM_CU_MEM_ALLOCATION_TYPE_PINNED */
	unsigned int handles; /* GM_CU_MEM_HANDLE_TYPE_*, 0: never exported */
	struct gm_cu_location location;
	void *windows; /* NULL */
	unsigned char compression;
	unsigned char rdma;
	unsigned short usage;
	unsigned char reserved[4];
};

struct gm_cu_access {
	struct gm_cu_location location;
	unsigned int flags; /* GM_CU_MEM_ACCESS_FLAGS_* */
};

enum {
	GM_CU_STREAM_WRITE_VALUE_DEFAULT = 0 /* cuStreamWriteValue64 */
};

/* ---- several copies at once --------------------------------------------- */

enum {
	GM_CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 1,
	GM_CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 3,
	GM_CU_MEMCPY_FLAG_DEFAULT = 0,
	GM_CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE = 1
};

struct gm_cu_copy_attributes {
	unsigned int order; /* GM_CU_MEMCPY_SRC_ACCESS_ORDER_* */
	struct gm_cu_location source;
	struct gm_cu_location destination;
	unsigned int flags; /* GM_CU_MEMCPY_FLAG_* */
};

/* ---- the way in --------------------------------------------------------- */

/*
 * The one symbol that is looked up by name, "cuGetProcAddress_v2" of CUDA 12.0.
 * All others are asked for through it and listed in driver_symbols.h.
 */
typedef gm_cu_result gm_cu_get_proc_address(const char *symbol, void **ret_fn,
					    int version, uint64_t flags,
					    unsigned int *ret_status);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_abi - what of OpenCL 1.2 gpumap calls, as a vendor's library has it in
 * memory.
 *
 * Declared here so that OpenCL is compiled in everywhere, and neither headers
 * nor a loader are ever needed.  Where <CL/cl_icd.h> is at hand, a test
 * compares every number and slot with it.  Names that begin with GM_CL_ are
 * OpenCL's with GM_ before them.
 */
#ifndef GM_OPENCL_ABI_H
#define GM_OPENCL_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t gm_cl_int;
typedef uint32_t gm_cl_uint;
typedef uint64_t gm_cl_ulong;

/* Functions that a library may lack, in its table. */
enum gm_opencl_slot {
	GM_CL_SLOT_GET_ADDRESS = 107,   /* of extensions, in OpenCL 1.2 */
	GM_CL_SLOT_CREATE_WITH_IL = 138 /* 2.1 */
};

/* A platform, device, context, queue, memory, program, kernel or event. */
struct gm_opencl_object {
	void *const *calls; /* by slot */
};
typedef struct gm_opencl_object *gm_cl;

/* Results that gpumap tells apart. */
enum gm_opencl_error {
	GM_CL_SUCCESS = 0,
	GM_CL_DEVICE_NOT_AVAILABLE = -2,
	GM_CL_COMPILER_NOT_AVAILABLE = -3,
	GM_CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
	GM_CL_OUT_OF_RESOURCES = -5,
	GM_CL_OUT_OF_HOST_MEMORY = -6,
	GM_CL_BUILD_PROGRAM_FAILURE = -11,
	GM_CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST = -14,
	GM_CL_INVALID_DEVICE = -33,
	GM_CL_INVALID_CONTEXT = -34,
	GM_CL_INVALID_COMMAND_QUEUE = -36,
	GM_CL_INVALID_KERNEL_NAME = -46,
	GM_CL_INVALID_WORK_GROUP_SIZE = -54,
	GM_CL_INVALID_BUFFER_SIZE = -61
};

enum gm_opencl_number {
	GM_CL_COMPLETE = 0,
	GM_CL_PLATFORM_VERSION = 0x0901,
	GM_CL_DEVICE_TYPE = 0x1000,
	GM_CL_DEVICE_VENDOR_ID = 0x1001,
	GM_CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
	GM_CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
	GM_CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
	GM_CL_DEVICE_SINGLE_FP_CONFIG = 0x101b,
	GM_CL_DEVICE_GLOBAL_MEM_SIZE = 0x101f,
	GM_CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
	GM_CL_DEVICE_ENDIAN_LITTLE = 0x1026,
	GM_CL_DEVICE_AVAILABLE = 0x1027,
	GM_CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
	GM_CL_DEVICE_NAME = 0x102b,
	GM_CL_DEVICE_VENDOR = 0x102c,
	GM_CL_DRIVER_VERSION = 0x102d,
	GM_CL_DEVICE_VERSION = 0x102f,
	GM_CL_DEVICE_EXTENSIONS = 0x1030,
	GM_CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
	GM_CL_DEVICE_PLATFORM = 0x1031,
	GM_CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
	GM_CL_DEVICE_IL_VERSION = 0x105b,
	GM_CL_DEVICE_UUID_KHR = 0x106a,
	GM_CL_PROGRAM_BINARY_SIZES = 0x1165,
	GM_CL_PROGRAM_BINARIES = 0x1166,
	GM_CL_PROGRAM_BUILD_LOG = 0x1183,
	GM_CL_KERNEL_NUM_ARGS = 0x1191,
	GM_CL_KERNEL_ARG_ADDRESS_QUALIFIER = 0x1196,
	GM_CL_KERNEL_ARG_TYPE_NAME = 0x1198,
	GM_CL_KERNEL_ARG_ADDRESS_GLOBAL = 0x119b,
	GM_CL_KERNEL_ARG_ADDRESS_PRIVATE = 0x119e,
	GM_CL_KERNEL_WORK_GROUP_SIZE = 0x11b0,
	GM_CL_KERNEL_COMPILE_WORK_GROUP_SIZE = 0x11b1,
	GM_CL_KERNEL_LOCAL_MEM_SIZE = 0x11b2,
	GM_CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11d3,
	GM_CL_DEVICE_PCI_BUS_INFO_KHR = 0x410f
};

/* Bits of GM_CL_DEVICE_TYPE. */
#define GM_CL_DEVICE_TYPE_CPU (UINT64_C(1) << 1)
#define GM_CL_DEVICE_TYPE_GPU (UINT64_C(1) << 2)
#define GM_CL_DEVICE_TYPE_ALL UINT64_C(0xffffffff)

/* Bits of GM_CL_DEVICE_SINGLE_FP_CONFIG and GM_CL_DEVICE_DOUBLE_FP_CONFIG. */
#define GM_CL_FP_DENORM           (UINT64_C(1) << 0)
#define GM_CL_FP_INF_NAN          (UINT64_C(1) << 1)
#define GM_CL_FP_ROUND_TO_NEAREST (UINT64_C(1) << 2)

/* The answer to GM_CL_DEVICE_PCI_BUS_INFO_KHR. */
struct gm_opencl_pci {
	gm_cl_uint domain;
	gm_cl_uint bus;
	gm_cl_uint device;
	gm_cl_uint function;
};

/* Flags of memory. */
#define GM_CL_MEM_READ_WRITE   (UINT64_C(1) << 0)
#define GM_CL_MEM_READ_ONLY    (UINT64_C(1) << 2)
#define GM_CL_MEM_USE_HOST_PTR (UINT64_C(1) << 3)

/* The two functions that a vendor's library has under their names. */
typedef void *gm_opencl_get_address(const char *name);
/* Makes a program of a module: OpenCL 2.1's, or cl_khr_il_program's. */
typedef gm_cl gm_opencl_create_with_il(gm_cl context, const void *module,
				       size_t bytes, gm_cl_int *ret_error);
typedef gm_cl_int gm_opencl_get_platforms(gm_cl_uint room, gm_cl *ret_platforms,
					  gm_cl_uint *ret_n);

#endif

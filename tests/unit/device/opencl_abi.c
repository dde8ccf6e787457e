/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* opencl_abi: our declarations against those of OpenCL's headers. */

#include "agent/device/opencl_abi.h"
#include "tests/support/tap.h"

#if __has_include(<CL/cl_icd.h>)
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>
#include <CL/cl_ext.h>

#define SYMBOL(slot, name, type, arguments) \
	EQ((slot) * sizeof(void *), offsetof(cl_icd_dispatch, name));

static void functions_have_their_slots(void)
{
#include "agent/device/opencl_symbols.h"
	EQ(GM_CL_SLOT_GET_ADDRESS * sizeof(void *),
	   offsetof(cl_icd_dispatch, clGetExtensionFunctionAddressForPlatform));
	EQ(GM_CL_SLOT_CREATE_WITH_IL * sizeof(void *),
	   offsetof(cl_icd_dispatch, clCreateProgramWithIL));
}

#define SAME(name) EQ(GM_##name, name)

static void numbers_are_theirs(void)
{
	SAME(CL_SUCCESS);
	SAME(CL_DEVICE_NOT_AVAILABLE);
	SAME(CL_COMPILER_NOT_AVAILABLE);
	SAME(CL_MEM_OBJECT_ALLOCATION_FAILURE);
	SAME(CL_OUT_OF_RESOURCES);
	SAME(CL_OUT_OF_HOST_MEMORY);
	SAME(CL_BUILD_PROGRAM_FAILURE);
	SAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
	SAME(CL_INVALID_DEVICE);
	SAME(CL_INVALID_CONTEXT);
	SAME(CL_INVALID_COMMAND_QUEUE);
	SAME(CL_INVALID_KERNEL_NAME);
	SAME(CL_INVALID_WORK_GROUP_SIZE);
	SAME(CL_INVALID_BUFFER_SIZE);
	SAME(CL_COMPLETE);
	SAME(CL_PLATFORM_VERSION);
	SAME(CL_DEVICE_TYPE);
	SAME(CL_DEVICE_VENDOR_ID);
	SAME(CL_DEVICE_VENDOR);
	SAME(CL_DEVICE_MAX_COMPUTE_UNITS);
	SAME(CL_DEVICE_MAX_WORK_GROUP_SIZE);
	SAME(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
	SAME(CL_DEVICE_SINGLE_FP_CONFIG);
	SAME(CL_DEVICE_GLOBAL_MEM_SIZE);
	SAME(CL_DEVICE_LOCAL_MEM_SIZE);
	SAME(CL_DEVICE_ENDIAN_LITTLE);
	SAME(CL_DEVICE_AVAILABLE);
	SAME(CL_DEVICE_COMPILER_AVAILABLE);
	SAME(CL_DEVICE_NAME);
	SAME(CL_DRIVER_VERSION);
	SAME(CL_DEVICE_VERSION);
	SAME(CL_DEVICE_EXTENSIONS);
	SAME(CL_DEVICE_PLATFORM);
	SAME(CL_DEVICE_HOST_UNIFIED_MEMORY);
	SAME(CL_DEVICE_IL_VERSION);
	SAME(CL_DEVICE_UUID_KHR);
	SAME(CL_DEVICE_PCI_BUS_INFO_KHR);
	SAME(CL_DEVICE_DOUBLE_FP_CONFIG);
	SAME(CL_PROGRAM_BINARY_SIZES);
	SAME(CL_PROGRAM_BINARIES);
	SAME(CL_PROGRAM_BUILD_LOG);
	SAME(CL_KERNEL_NUM_ARGS);
	SAME(CL_KERNEL_ARG_ADDRESS_QUALIFIER);
	SAME(CL_KERNEL_ARG_TYPE_NAME);
	SAME(CL_KERNEL_ARG_ADDRESS_GLOBAL);
	SAME(CL_KERNEL_ARG_ADDRESS_PRIVATE);
	SAME(CL_KERNEL_WORK_GROUP_SIZE);
	SAME(CL_KERNEL_COMPILE_WORK_GROUP_SIZE);
	SAME(CL_KERNEL_LOCAL_MEM_SIZE);
	SAME(CL_EVENT_COMMAND_EXECUTION_STATUS);
	SAME(CL_DEVICE_TYPE_CPU);
	SAME(CL_DEVICE_TYPE_GPU);
	SAME(CL_DEVICE_TYPE_ALL);
	SAME(CL_FP_DENORM);
	SAME(CL_FP_INF_NAN);
	SAME(CL_FP_ROUND_TO_NEAREST);
	SAME(CL_MEM_READ_WRITE);
	SAME(CL_MEM_READ_ONLY);
	SAME(CL_MEM_USE_HOST_PTR);
}

TAP_CASE()
{
	functions_have_their_slots();
	numbers_are_theirs();
	EQ(sizeof(gm_cl_int), sizeof(cl_int));
	EQ(sizeof(gm_cl_uint), sizeof(cl_uint));
	EQ(sizeof(gm_cl_ulong), sizeof(cl_bitfield));
	EQ(sizeof(struct gm_opencl_pci), sizeof(cl_device_pci_bus_info_khr));
	EQ(offsetof(struct gm_opencl_pci, bus),
	   offsetof(cl_device_pci_bus_info_khr, pci_bus));
	return tap_done();
}
#else
TAP_CASE()
{
	LACK("opencl-headers", 1, "there is no <CL/cl_icd.h>");
	return tap_done();
}
#endif

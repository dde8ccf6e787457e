/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The stand-in under HIP's names: its machine's cards, as HIP's runtime shows
 * them.  Each function does what the driver's does; what differs is in what is
 * given: attributes have other numbers, a UUID is text, the extras of a launch
 * end with 3, and a descriptor is in memory before 7.1.  A code object is PTX
 * with the entries that its notes tell of.  hipInit() calls no
 * card an invalid device, and a context takes no flags before it is made.
 *
 * $GPUMAP_FAKE_HIP is the version, as hipRuntimeGetVersion() tells it.
 * $ROCR_VISIBLE_DEVICES may be the number of one card.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/code_object.h"
#include "tests/support/cuda_abi.h"

#define DEFAULT_VERSION 70100000

static int version(void)
{
	const char *text = getenv("GPUMAP_FAKE_HIP");

	return text ? atoi(text) : DEFAULT_VERSION;
}

/* ---- those that differ --------------------------------------------------- */

/* The number is the beginning of a UUID, which has dashes. */
static void see_one(const char *number)
{
	char uuid[32];

	if (snprintf(uuid, sizeof(uuid), "%.12s-%.4s-%s", number, number + 12,
		     number + 16) == 22)
		setenv("CUDA_VISIBLE_DEVICES", uuid, 1);
}

CUresult hipInit(unsigned int flags);
CUresult hipInit(unsigned int flags)
{
	const char *number = getenv("ROCR_VISIBLE_DEVICES");
	CUresult result;

	if (number && strlen(number) == 20)
		see_one(number);
	result = cuInit(flags);
	return result == CUDA_ERROR_NO_DEVICE ? CUDA_ERROR_INVALID_DEVICE
					      : result;
}

CUresult hipRuntimeGetVersion(int *ret_version);
CUresult hipRuntimeGetVersion(int *ret_version)
{
	*ret_version = version();
	return CUDA_SUCCESS;
}

CUresult hipDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult hipDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	static const struct {
		int hip;
		CUdevice_attribute cuda;
	} table[] = {
		{ 3, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED },
		{ 59, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH },
		{ 60, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE },
		{ 63, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT },
		{ 89, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED },
		{ 10013, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].hip == attribute)
			return cuDeviceGetAttribute(value, table[i].cuda,
						    device);
	return CUDA_ERROR_INVALID_VALUE;
}

/* 16 digits of a number of 64 bits. */
CUresult hipDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult hipDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	char digits[17];
	CUuuid of_cuda;
	CUresult result = cuDeviceGetUuid_v2(&of_cuda, device);

	for (int i = 0; i < 8 && !result; i++)
		snprintf(digits + 2 * i, 3, "%02x",
			 (unsigned char)of_cuda.bytes[i]);
	if (!result)
		memcpy(uuid->bytes, digits, sizeof(uuid->bytes));
	return result;
}

CUresult hipDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags);
CUresult hipDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
	(void)device;
	(void)flags;
	return 216; /* the context is in use already, always */
}

CUresult hipSetDeviceFlags(unsigned int flags);
CUresult hipSetDeviceFlags(unsigned int flags)
{
	CUcontext context;
	CUresult result = cuCtxGetCurrent(&context);

	if (!result && !context)
		return CUDA_ERROR_INVALID_CONTEXT;
	return !result && flags & ~0x1fu ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult hipMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
					 void *fd,
					 CUmemAllocationHandleType type);
CUresult hipMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
					 void *fd,
					 CUmemAllocationHandleType type)
{
	if (version() < 70100000)
		fd = (void *)(intptr_t) * (const int *)fd;
	return cuMemImportFromShareableHandle(handle, fd, type);
}

static char *write_ptx(const struct code_object *object)
{
	char *text = malloc(CODE_KERNELS * 1024);
	int n = text ? sprintf(text, ".version 6.4\n.target sm_50\n"
				     ".address_size 64\n")
		     : 0;

	for (uint32_t i = 0; text && i < object->n; i++) {
		const struct code_kernel *k = &object->kernels[i];

		n += sprintf(text + n, ".visible .entry %s(\n", k->name);
		for (uint32_t j = 0; j < k->n_args; j++)
			n += sprintf(text + n, "%s.param .u%u p%u",
				     j ? ",\n" : "", 8u * k->sizes[j], j);
		n += sprintf(text + n, ")\n{\n\tret;\n}\n");
	}
	return text;
}

CUresult hipModuleLoadDataEx(CUmodule *module, const void *image,
			     unsigned int n, CUjit_option *options,
			     void **values);
CUresult hipModuleLoadDataEx(CUmodule *module, const void *image,
			     unsigned int n, CUjit_option *options,
			     void **values)
{
	struct code_object *object = malloc(sizeof(*object));
	char *ptx = NULL;
	CUresult result;

	if (object && code_object_read(image, object))
		ptx = write_ptx(object);
	result = cuModuleLoadDataEx(module, ptx ? ptx : image, n, options,
				    values);
	free(ptx);
	free(object);
	return result;
}

CUresult hipModuleLaunchKernel(CUfunction function, unsigned int grid_x,
			       unsigned int grid_y, unsigned int grid_z,
			       unsigned int block_x, unsigned int block_y,
			       unsigned int block_z, unsigned int shared_bytes,
			       CUstream stream, void **params, void **extra);
CUresult hipModuleLaunchKernel(CUfunction function, unsigned int grid_x,
			       unsigned int grid_y, unsigned int grid_z,
			       unsigned int block_x, unsigned int block_y,
			       unsigned int block_z, unsigned int shared_bytes,
			       CUstream stream, void **params, void **extra)
{
	void *of_cuda[5] = { NULL };

	if (extra) {
		if (extra[0] != (void *)1 || extra[2] != (void *)2 ||
		    extra[4] != (void *)3)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(of_cuda, extra, 4 * sizeof(void *));
	}
	return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x,
			      block_y, block_z, shared_bytes, stream, params,
			      extra ? of_cuda : NULL);
}

/* ---- those of another name ----------------------------------------------- */

#define SAME(hip, cuda, declared, given) \
	CUresult hip declared;           \
	CUresult hip declared            \
	{                                \
		return cuda given;       \
	}

/* clang-format off */
SAME(hipGetDeviceCount, cuDeviceGetCount, (int *n), (n))
SAME(hipDeviceGet, cuDeviceGet, (CUdevice *dev, int i), (dev, i))
SAME(hipDeviceGetName, cuDeviceGetName, (char *name, int n, CUdevice dev),
     (name, n, dev))
SAME(hipDeviceGetPCIBusId, cuDeviceGetPCIBusId,
     (char *id, int n, CUdevice dev), (id, n, dev))
SAME(hipDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *n, CUdevice dev),
     (n, dev))
SAME(hipDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain,
     (CUcontext *ctx, CUdevice dev), (ctx, dev))
SAME(hipDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2,
     (CUdevice dev), (dev))
SAME(hipCtxSetCurrent, cuCtxSetCurrent, (CUcontext ctx), (ctx))
SAME(hipCtxGetCurrent, cuCtxGetCurrent, (CUcontext *ctx), (ctx))
SAME(hipDeviceSynchronize, cuCtxSynchronize, (void), ())
SAME(hipDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange,
     (int *least, int *most), (least, most))
SAME(hipStreamCreateWithPriority, cuStreamCreateWithPriority,
     (CUstream *s, unsigned int flags, int priority), (s, flags, priority))
SAME(hipStreamDestroy, cuStreamDestroy_v2, (CUstream s), (s))
SAME(hipStreamQuery, cuStreamQuery, (CUstream s), (s))
SAME(hipStreamSynchronize, cuStreamSynchronize, (CUstream s), (s))
SAME(hipStreamWaitEvent, cuStreamWaitEvent,
     (CUstream s, CUevent e, unsigned int flags), (s, e, flags))
SAME(hipStreamWriteValue64, cuStreamWriteValue64_v2,
     (CUstream s, CUdeviceptr at, cuuint64_t value, unsigned int flags),
     (s, at, value, flags))
SAME(hipEventCreateWithFlags, cuEventCreate,
     (CUevent *e, unsigned int flags), (e, flags))
SAME(hipEventRecord, cuEventRecord, (CUevent e, CUstream s), (e, s))
SAME(hipEventQuery, cuEventQuery, (CUevent e), (e))
SAME(hipEventSynchronize, cuEventSynchronize, (CUevent e), (e))
SAME(hipEventElapsedTime, cuEventElapsedTime,
     (float *ms, CUevent from, CUevent to), (ms, from, to))
SAME(hipEventDestroy, cuEventDestroy_v2, (CUevent e), (e))
SAME(hipMemGetInfo, cuMemGetInfo_v2, (size_t *left, size_t *total),
     (left, total))
SAME(hipMalloc, cuMemAlloc_v2, (CUdeviceptr *at, size_t n), (at, n))
SAME(hipFree, cuMemFree_v2, (CUdeviceptr at), (at))
SAME(hipHostMalloc, cuMemHostAlloc,
     (void **at, size_t n, unsigned int flags), (at, n, flags))
SAME(hipHostFree, cuMemFreeHost, (void *at), (at))
SAME(hipHostRegister, cuMemHostRegister_v2,
     (void *at, size_t n, unsigned int flags), (at, n, flags))
SAME(hipHostUnregister, cuMemHostUnregister, (void *at), (at))
SAME(hipHostGetDevicePointer, cuMemHostGetDevicePointer_v2,
     (CUdeviceptr *to, void *at, unsigned int flags), (to, at, flags))
SAME(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,
     (CUdeviceptr to, const void *from, size_t n, CUstream s),
     (to, from, n, s))
SAME(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,
     (void *to, CUdeviceptr from, size_t n, CUstream s), (to, from, n, s))
SAME(hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,
     (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
     (to, from, n, s))
SAME(hipMemsetD8Async, cuMemsetD8Async,
     (CUdeviceptr to, unsigned char value, size_t n, CUstream s),
     (to, value, n, s))
SAME(hipModuleGetFunction, cuModuleGetFunction,
     (CUfunction *f, CUmodule m, const char *name), (f, m, name))
SAME(hipModuleUnload, cuModuleUnload, (CUmodule m), (m))
SAME(hipMemGetAllocationGranularity, cuMemGetAllocationGranularity,
     (size_t *n, const CUmemAllocationProp *p,
      CUmemAllocationGranularity_flags which),
     (n, p, which))
SAME(hipMemCreate, cuMemCreate,
     (CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p,
      unsigned long long flags),
     (h, n, p, flags))
SAME(hipMemRelease, cuMemRelease, (CUmemGenericAllocationHandle h), (h))
SAME(hipMemAddressReserve, cuMemAddressReserve,
     (CUdeviceptr *at, size_t n, size_t alignment, CUdeviceptr wish,
      unsigned long long flags),
     (at, n, alignment, wish, flags))
SAME(hipMemAddressFree, cuMemAddressFree, (CUdeviceptr at, size_t n), (at, n))
SAME(hipMemMap, cuMemMap,
     (CUdeviceptr at, size_t n, size_t offset, CUmemGenericAllocationHandle h,
      unsigned long long flags),
     (at, n, offset, h, flags))
SAME(hipMemUnmap, cuMemUnmap, (CUdeviceptr at, size_t n), (at, n))
SAME(hipMemSetAccess, cuMemSetAccess,
     (CUdeviceptr at, size_t n, const CUmemAccessDesc *access, size_t count),
     (at, n, access, count))
SAME(hipMemExportToShareableHandle, cuMemExportToShareableHandle,
     (void *fd, CUmemGenericAllocationHandle h, CUmemAllocationHandleType type,
      unsigned long long flags),
     (fd, h, type, flags))
SAME(hipMemGetAllocationPropertiesFromHandle,
     cuMemGetAllocationPropertiesFromHandle,
     (CUmemAllocationProp *p, CUmemGenericAllocationHandle h), (p, h))
/* clang-format on */

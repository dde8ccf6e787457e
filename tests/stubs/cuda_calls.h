/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_calls - the driver's entry points that our tests touch.  A part of
 * cuda.h, which comes first.
 */
#ifndef GM_STUB_CUDA_CALLS_H
#define GM_STUB_CUDA_CALLS_H

/* The library. */
CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuGetErrorString(CUresult error, const char **text);
CUresult cuGetProcAddress(const char *symbol, void **pfn, int version,
			  cuuint64_t flags);
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
			     cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status);

/* Devices. */
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetName(char *name, int n, CUdevice device);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
			      CUdevice device);
CUresult cuDeviceGetPCIBusId(char *id, int n, CUdevice device);
CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);

/* Contexts. */
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags,
				    int *active);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags,
			CUdevice device);
CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params,
			unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxSynchronize(void);
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);

/* Streams. */
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags,
				    int priority);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamGetPriority(CUstream stream, int *priority);
CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn call, void *data);
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address,
			      cuuint32_t value, unsigned int flags);
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address,
			      cuuint64_t value, unsigned int flags);
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
			    CUstreamBatchMemOpParams *ops, unsigned int flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
				 cuuint32_t value, unsigned int flags);
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address,
				 cuuint64_t value, unsigned int flags);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address,
				cuuint32_t value, unsigned int flags);
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
			       CUstreamBatchMemOpParams *ops,
			       unsigned int flags);

/* Events. */
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);
CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end);

/* Memory. */
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
				 CUdeviceptr address);
CUresult cuMemAllocHost_v2(void **pointer, size_t bytes);
CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags);
CUresult cuMemFreeHost(void *pointer);
CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags);
CUresult cuMemHostUnregister(void *pointer);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer,
				      unsigned int flags);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
			       CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
				void **data, CUdeviceptr address);
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address);

/* Copies. */
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
			      CUstream stream);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
			      CUstream stream);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
			      CUstream stream);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
		      CUcontext from_context, size_t bytes);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context,
			   CUdeviceptr from, CUcontext from_context,
			   size_t bytes, CUstream stream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
			    size_t n, CUmemcpyAttributes *attributes,
			    size_t *firsts, size_t n_attributes, size_t *failed,
			    CUstream stream);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from,
			       size_t *bytes, size_t n,
			       CUmemcpyAttributes *attributes, size_t *firsts,
			       size_t n_attributes, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t n);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n,
			 CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n,
			  CUstream stream);

/* Memory by handles, and addresses apart from it. */
CUresult cuMemGetAllocationGranularity(size_t *bytes,
				       const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option);
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes,
			     size_t alignment, CUdeviceptr hint,
			     unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes);
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle,
		  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
			const CUmemAccessDesc *access, size_t n);
CUresult cuMemGetAccess(unsigned long long *flags,
			const CUmemLocation *location, CUdeviceptr address);
CUresult cuMemExportToShareableHandle(void *shareable,
				      CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type,
				      unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
					void *shareable,
					CUmemAllocationHandleType type);
CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
				       CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
				     void *address);

/* Code. */
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n,
			    CUjit_option *options, void **values);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
			     const char *name);
CUresult cuLibraryLoadData(CUlibrary *library, const void *image,
			   CUjit_option *options, void **values, unsigned int n,
			   CUlibraryOption *library_options,
			   void **library_values, unsigned int n_library);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library,
			    const char *name);
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel);
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
			    CUfunction function);
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x,
			unsigned int grid_y, unsigned int grid_z,
			unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared_bytes,
			CUstream stream, void **params, void **extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
			  void **params, void **extra);

#endif

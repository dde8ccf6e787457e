/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * driver_symbols - every function of the driver that gpumap calls.
 *
 * A table without a guard: who includes it defines
 *
 *	SYMBOL(group, name, version, hip, arguments)
 *
 * The version is the one whose ABI the arguments are, which is often older
 * than the newest one that a driver has.  HIP's function of the same arguments
 * is @hip, or NULL.  A group is there as a whole or not at all, and what needs
 * it asks for the group, not for a symbol.
 */

/* One table, one shape. */
/* clang-format off */

/* Without these there is no driver. */
SYMBOL(CORE, cuInit, 2000, "hipInit", (unsigned int flags))
SYMBOL(CORE, cuDriverGetVersion, 2020, "hipRuntimeGetVersion",
       (int *ret_version))
SYMBOL(CORE, cuDeviceGetCount, 2000, "hipGetDeviceCount", (int *ret_count))
SYMBOL(CORE, cuDeviceGet, 2000, "hipDeviceGet", (int *ret_dev, int ordinal))
SYMBOL(CORE, cuDeviceGetName, 2000, "hipDeviceGetName",
       (char *ret_name, int bytes, int dev))
SYMBOL(CORE, cuDeviceGetUuid, 11040, "hipDeviceGetUuid",
       (struct gm_cu_uuid *ret_uuid, int dev))
SYMBOL(CORE, cuDeviceGetPCIBusId, 4010, "hipDeviceGetPCIBusId",
       (char *ret_id, int bytes, int dev))
SYMBOL(CORE, cuDeviceGetAttribute, 2000, "hipDeviceGetAttribute",
       (int *ret_value, unsigned int attribute, int dev))
SYMBOL(CORE, cuDeviceTotalMem, 3020, "hipDeviceTotalMem",
       (size_t *ret_bytes, int dev))
SYMBOL(CORE, cuDevicePrimaryCtxSetFlags, 11000, "hipDevicePrimaryCtxSetFlags",
       (int dev, unsigned int flags))
SYMBOL(CORE, cuDevicePrimaryCtxRetain, 7000, "hipDevicePrimaryCtxRetain",
       (struct CUctx_st **ret_ctx, int dev))
SYMBOL(CORE, cuDevicePrimaryCtxRelease, 11000, "hipDevicePrimaryCtxRelease",
       (int dev))
SYMBOL(CORE, cuCtxSetCurrent, 4000, "hipCtxSetCurrent", (struct CUctx_st *ctx))
SYMBOL(CORE, cuCtxGetCurrent, 4000, "hipCtxGetCurrent",
       (struct CUctx_st **ret_ctx))
SYMBOL(CORE, cuCtxSynchronize, 2000, "hipDeviceSynchronize", (void))
SYMBOL(CORE, cuCtxGetStreamPriorityRange, 5050,
       "hipDeviceGetStreamPriorityRange", (int *ret_least, int *ret_greatest))
SYMBOL(CORE, cuStreamCreateWithPriority, 5050, "hipStreamCreateWithPriority",
       (struct CUstream_st **ret_stream, unsigned int flags, int priority))
SYMBOL(CORE, cuStreamDestroy, 4000, "hipStreamDestroy",
       (struct CUstream_st *stream))
SYMBOL(CORE, cuStreamQuery, 2000, "hipStreamQuery",
       (struct CUstream_st *stream))
SYMBOL(CORE, cuStreamSynchronize, 2000, "hipStreamSynchronize",
       (struct CUstream_st *stream))
SYMBOL(CORE, cuStreamWaitEvent, 3020, "hipStreamWaitEvent",
       (struct CUstream_st *stream, struct CUevent_st *event,
	unsigned int flags))
SYMBOL(CORE, cuEventCreate, 2000, "hipEventCreateWithFlags",
       (struct CUevent_st **ret_event, unsigned int flags))
SYMBOL(CORE, cuEventRecord, 2000, "hipEventRecord",
       (struct CUevent_st *event, struct CUstream_st *stream))
SYMBOL(CORE, cuEventQuery, 2000, "hipEventQuery", (struct CUevent_st *event))
SYMBOL(CORE, cuEventSynchronize, 2000, "hipEventSynchronize",
       (struct CUevent_st *event))
SYMBOL(CORE, cuEventElapsedTime, 2000, "hipEventElapsedTime",
       (float *ret_ms, struct CUevent_st *from, struct CUevent_st *to))
SYMBOL(CORE, cuEventDestroy, 4000, "hipEventDestroy",
       (struct CUevent_st *event))
SYMBOL(CORE, cuMemGetInfo, 3020, "hipMemGetInfo",
       (size_t *ret_free, size_t *ret_total))
SYMBOL(CORE, cuMemAlloc, 3020, "hipMalloc", (gm_cu_ptr *ret_ptr, size_t bytes))
SYMBOL(CORE, cuMemFree, 3020, "hipFree", (gm_cu_ptr ptr))
SYMBOL(CORE, cuMemHostAlloc, 2020, "hipHostMalloc",
       (void **ret_host, size_t bytes, unsigned int flags))
SYMBOL(CORE, cuMemFreeHost, 2000, "hipHostFree", (void *host))
SYMBOL(CORE, cuMemcpyHtoDAsync, 3020, "hipMemcpyHtoDAsync",
       (gm_cu_ptr dst, const void *src, size_t bytes,
	struct CUstream_st *stream))
SYMBOL(CORE, cuMemcpyDtoHAsync, 3020, "hipMemcpyDtoHAsync",
       (void *dst, gm_cu_ptr src, size_t bytes, struct CUstream_st *stream))
SYMBOL(CORE, cuMemcpyDtoDAsync, 3020, "hipMemcpyDtoDAsync",
       (gm_cu_ptr dst, gm_cu_ptr src, size_t bytes,
	struct CUstream_st *stream))
SYMBOL(CORE, cuMemsetD8Async, 3020, "hipMemsetD8Async",
       (gm_cu_ptr dst, unsigned char value, size_t n,
	struct CUstream_st *stream))
SYMBOL(CORE, cuModuleLoadDataEx, 2010, "hipModuleLoadDataEx",
       (struct CUmod_st **ret_module, const void *image, unsigned int n,
	unsigned int *options, void **values))
SYMBOL(CORE, cuModuleUnload, 2000, "hipModuleUnload", (struct CUmod_st *module))
SYMBOL(CORE, cuModuleGetFunction, 2000, "hipModuleGetFunction",
       (struct CUfunc_st **ret_fn, struct CUmod_st *module, const char *name))
SYMBOL(CORE, cuLaunchKernel, 4000, "hipModuleLaunchKernel",
       (struct CUfunc_st *fn, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y,
	unsigned int block_z, unsigned int shared_bytes,
	struct CUstream_st *stream, void **params, void **extra))

/* Copies straight from and to a client's memory; without, through staging. */
SYMBOL(REGISTER, cuMemHostRegister, 6050, "hipHostRegister",
       (void *host, size_t bytes, unsigned int flags))
SYMBOL(REGISTER, cuMemHostUnregister, 4000, "hipHostUnregister", (void *host))
SYMBOL(REGISTER, cuMemHostGetDevicePointer, 3020, "hipHostGetDevicePointer",
       (gm_cu_ptr *ret_ptr, void *host, unsigned int flags))

/* Memory that can be exported; without, none can. */
SYMBOL(VMM, cuMemGetAllocationGranularity, 10020,
       "hipMemGetAllocationGranularity",
       (size_t *ret_bytes, const struct gm_cu_memory *memory,
	unsigned int option))
SYMBOL(VMM, cuMemCreate, 10020, "hipMemCreate",
       (gm_cu_handle *ret_handle, size_t bytes,
	const struct gm_cu_memory *memory, unsigned long long flags))
SYMBOL(VMM, cuMemRelease, 10020, "hipMemRelease", (gm_cu_handle handle))
SYMBOL(VMM, cuMemAddressReserve, 10020, "hipMemAddressReserve",
       (gm_cu_ptr *ret_ptr, size_t bytes, size_t alignment, gm_cu_ptr wish,
	unsigned long long flags))
SYMBOL(VMM, cuMemAddressFree, 10020, "hipMemAddressFree",
       (gm_cu_ptr ptr, size_t bytes))
SYMBOL(VMM, cuMemMap, 10020, "hipMemMap",
       (gm_cu_ptr ptr, size_t bytes, size_t offset, gm_cu_handle handle,
	unsigned long long flags))
SYMBOL(VMM, cuMemUnmap, 10020, "hipMemUnmap", (gm_cu_ptr ptr, size_t bytes))
SYMBOL(VMM, cuMemSetAccess, 10020, "hipMemSetAccess",
       (gm_cu_ptr ptr, size_t bytes, const struct gm_cu_access *access,
	size_t n))
SYMBOL(VMM, cuMemExportToShareableHandle, 10020,
       "hipMemExportToShareableHandle",
       (void *ret_fd, gm_cu_handle handle, unsigned int type,
	unsigned long long flags))
SYMBOL(VMM, cuMemImportFromShareableHandle, 10020,
       "hipMemImportFromShareableHandle",
       (gm_cu_handle *ret_handle, void *fd, unsigned int type))
SYMBOL(VMM, cuMemGetAllocationPropertiesFromHandle, 10020,
       "hipMemGetAllocationPropertiesFromHandle",
       (struct gm_cu_memory *ret_memory, gm_cu_handle handle))

/* Completion words that the device writes; without, events are polled. */
SYMBOL(MEMOPS, cuStreamWriteValue64, 11070, "hipStreamWriteValue64",
       (struct CUstream_st *stream, gm_cu_ptr ptr, uint64_t value,
	unsigned int flags))

/* How threads wait in a context; HIP's has no flags before it is made. */
SYMBOL(FLAGS, cuCtxSetFlags, 12010, "hipSetDeviceFlags", (unsigned int flags))

/* Many small copies in one call; without, one call each. */
SYMBOL(BATCH, cuMemcpyBatchAsync, 12080, NULL,
       (gm_cu_ptr *dsts, gm_cu_ptr *srcs, size_t *bytes, size_t n,
	struct gm_cu_copy_attributes *attributes, size_t *firsts,
	size_t n_attributes, size_t *ret_failed, struct CUstream_st *stream))

/* Programs that are loaded once for all contexts; without, modules. */
SYMBOL(LIBRARY, cuLibraryLoadData, 12000, NULL,
       (struct CUlib_st **ret_library, const void *image,
	unsigned int *jit_options, void **jit_values, unsigned int n_jit,
	unsigned int *options, void **values, unsigned int n))
SYMBOL(LIBRARY, cuLibraryUnload, 12000, NULL, (struct CUlib_st *library))
SYMBOL(LIBRARY, cuLibraryGetKernel, 12000, NULL,
       (struct CUkern_st **ret_kernel, struct CUlib_st *library,
	const char *name))
SYMBOL(LIBRARY, cuKernelGetFunction, 12000, NULL,
       (struct CUfunc_st **ret_fn, struct CUkern_st *kernel))

/* clang-format on */

#undef SYMBOL

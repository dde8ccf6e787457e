/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/cuda.h - use rows, exported buffers and masks in the caller's own CUDA
 * context.
 *
 * For a program that uses CUDA's driver interface.  The functions find the row
 * of one of its devices, and map buffers that a session exports into its
 * context, so that weights that were loaded once per node are used where they
 * are.  The program needs cuda.h, 11.4 or newer, and links with libcuda;
 * libgpumap needs neither.
 *
 *	gpumap_export_fd(map, number, &info, &fd);
 *	gpumap_cuda_import(fd, &info, GPUMAP_BUFFER_READ_ONLY, &weights);
 *	close(fd);
 *	... kernels read at weights.address ...
 *	gpumap_cuda_release(&weights);
 *
 * An import is the memory itself, not a copy, and keeps it: the memory stays as
 * it is when the buffer is freed and when the row's worker or the agent dies,
 * and the device gets it back only when it is released.  Writes of other
 * programs are visible at once; only synchronisation between the programs
 * orders them.
 *
 * A published mask has a replica on each of its CUDA rows, which is imported
 * once:
 *
 *	gpumap_mask_open(map, "causal", 0, &mask);
 *	gpumap_cuda_mask_get(map, mask, row, &causal, NULL);
 *	... kernels read at causal.memory.address ...
 *	gpumap_cuda_mask_release(&causal);
 *
 * Functions that use only CUDA return CUDA's own results; functions that read
 * the map return a negative errno.
 */
#ifndef GPUMAP_CUDA_H
#define GPUMAP_CUDA_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>
#include <gpumap.h>
#include <gpumap/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * gpumap_cuda_row - the row of one of CUDA's devices
 *
 * Ordinals differ from process to process: a device is identified by its UUID,
 * or that of the MIG instance.
 *
 * Returns	the row, >= 0
 *		-ENODEV		the driver or the map does not know the device
 *		-EAGAIN, -EPROTO	as gpumap_device_find()
 * Cost		no system call of this header; reads every row
 * Threads	any
 */
static inline int gpumap_cuda_row(const struct gpumap *map, CUdevice device)
{
	uint8_t uuid[16];
	CUuuid answer;

	if (cuDeviceGetUuid_v2(&answer, device) != CUDA_SUCCESS)
		return -ENODEV;
	memcpy(uuid, &answer, sizeof(uuid));
	return gpumap_device_find(map, uuid);
}

/*
 * gpumap_cuda_device - the device of a row, as this process's CUDA names it
 *
 * Returns	0
 *		-ENODEV		no such row, or a device that is not visible to
 *				this process, see gpumap_device_visible()
 *		-EAGAIN, -EPROTO	as gpumap_device_read()
 * Cost		a call of the driver for each device
 * Threads	any
 */
static inline int gpumap_cuda_device(const struct gpumap *map, uint32_t row,
				     CUdevice *ret_device)
{
	struct gpumap_device facts;
	int n = 0, ret;

	memset(&facts, 0, sizeof(facts));
	facts.size = sizeof(facts);
	ret = gpumap_device_read(map, row, &facts);
	if (ret != 0)
		return ret;
	if (cuDeviceGetCount(&n) != CUDA_SUCCESS)
		return -ENODEV;
	for (int i = 0; i < n; i++) {
		CUdevice device;
		CUuuid uuid;

		if (cuDeviceGet(&device, i) != CUDA_SUCCESS ||
		    cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS ||
		    memcmp(&uuid, facts.uuid, sizeof(facts.uuid)) != 0)
			continue;
		*ret_device = device;
		return 0;
	}
	return -ENODEV;
}

/* An imported buffer, in the context that was current then. */
struct gpumap_cuda_memory {
	CUdeviceptr address;
	size_t bytes;  /* of the buffer */
	size_t mapped; /* whole granules, from @address on */
};

/* Map existing memory at an address, with access for one device. */
static inline CUresult gpumap_cuda_map(CUmemGenericAllocationHandle memory,
				       size_t bytes,
				       const CUmemAccessDesc *access,
				       CUdeviceptr *ret_address)
{
	CUdeviceptr address = 0;
	CUresult ret = cuMemAddressReserve(&address, bytes, 0, 0, 0);

	if (ret != CUDA_SUCCESS)
		return ret;
	ret = cuMemMap(address, bytes, 0, memory, 0);
	if (ret == CUDA_SUCCESS) {
		ret = cuMemSetAccess(address, bytes, access, 1);
		if (ret != CUDA_SUCCESS)
			cuMemUnmap(address, bytes);
	}
	if (ret != CUDA_SUCCESS) {
		cuMemAddressFree(address, bytes);
		return ret;
	}
	*ret_address = address;
	return CUDA_SUCCESS;
}

/*
 * gpumap_cuda_import - map an exported buffer in the current context
 *
 * fd		of gpumap_export_fd(); stays the caller's, who may close it
 *		afterwards
 * info		likewise
 * flags	GPUMAP_BUFFER_READ_ONLY or 0: the access of kernels of this
 *		context, which does not bind any other process
 * ret_memory	give it back with gpumap_cuda_release()
 *
 * The context is of the device whose memory it is, or of one that has peer
 * access to that.
 *
 * Returns	CUDA_SUCCESS, or the driver's error; nothing stays mapped then
 *		CUDA_ERROR_INVALID_VALUE	also flags that are not known
 *						here
 * Cost		as cuMemMap() and cuMemSetAccess(): it may wait for kernels
 * Threads	any that has a context current
 */
static inline CUresult gpumap_cuda_import(int fd,
					  const struct gpumap_export_info *info,
					  uint32_t flags,
					  struct gpumap_cuda_memory *ret_memory)
{
	struct gpumap_cuda_memory memory;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop;
	CUmemAccessDesc access;
	size_t granule = 0;
	CUresult ret;

	if ((flags & ~GPUMAP_BUFFER_READ_ONLY) != 0 || info->bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	memset(&memory, 0, sizeof(memory));
	memset(&access, 0, sizeof(access));
	memset(&prop, 0, sizeof(prop));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = flags != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
				  : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	ret = cuCtxGetDevice(&access.location.id);
	if (ret != CUDA_SUCCESS)
		return ret;
	ret = cuMemImportFromShareableHandle(
		&handle, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (ret != CUDA_SUCCESS)
		return ret;
	/* The granule of our device, because the memory's device may be hidden
	 * from this process, and has no number here then. */
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location = access.location;
	ret = cuMemGetAllocationGranularity(&granule, &prop,
					    CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (ret == CUDA_SUCCESS) {
		memory.bytes = (size_t)info->bytes;
		memory.mapped =
			(memory.bytes + granule - 1) / granule * granule;
		ret = gpumap_cuda_map(handle, memory.mapped, &access,
				      &memory.address);
	}
	/* The mapping keeps the memory existing. */
	cuMemRelease(handle);
	if (ret == CUDA_SUCCESS)
		*ret_memory = memory;
	return ret;
}

/*
 * gpumap_cuda_release - unmap an import; one that is all zero is allowed
 *
 * No kernel and no copy that uses the memory may be under way.
 *
 * Returns	CUDA_SUCCESS, or what the driver says
 * Cost		as cuMemUnmap(): it may wait for kernels
 * Threads	any
 */
static inline CUresult gpumap_cuda_release(struct gpumap_cuda_memory *memory)
{
	CUresult ret;

	if (memory->mapped == 0)
		return CUDA_SUCCESS;
	ret = cuMemUnmap(memory->address, memory->mapped);
	if (ret != CUDA_SUCCESS)
		return ret;
	ret = cuMemAddressFree(memory->address, memory->mapped);
	memset(memory, 0, sizeof(*memory));
	return ret;
}

/* A row's replica of a mask, imported; all zero before the first time.  For one
 * thread, one row and one context. */
struct gpumap_cuda_mask {
	struct gpumap_cuda_memory memory; /* the tensor, from @address on */
	uint64_t export_id;               /* the id of that replica */
};

/*
 * gpumap_cuda_mask_get - get a mask's replica on the row of the current context
 *
 * mask		of gpumap_mask_open()
 * row		that of the context's device, see gpumap_cuda_row()
 * cached	the state of the previous calls, which this call updates
 * ret_result	receives the driver's result; may be NULL
 *
 * The first time, and when the mask has been published again, the replica is
 * imported for reading.  The previous import is released then, after all work
 * in this context, which may use it: no other context may use it.  To keep a
 * version, open the mask with GPUMAP_MASK_PIN.
 *
 * Returns	0: the tensor is at @cached->memory.address
 *		-EAGAIN		it was published again: call again; @cached is
 *				unchanged
 *		-ENOENT		the row has no replica, or has none any more; or
 *				the mask was released
 *		-EOPNOTSUPP	it is not in a device's memory: a host's row, or
 *				a mask without a tensor
 *		-EIO		the driver refuses: *ret_result
 *		and as gpumap_mask_get() and gpumap_export_fd()
 * Cost		as gpumap_mask_get(); to import, a round trip on the control
 *		socket, and cuCtxSynchronize() where something is given back
 * Threads	the mask's own thread
 */
static inline int gpumap_cuda_mask_get(struct gpumap *map,
				       struct gpumap_mask *mask, uint32_t row,
				       struct gpumap_cuda_mask *cached,
				       CUresult *ret_result)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_cuda_memory memory;
	struct gpumap_export_info info;
	CUresult result;
	int fd = -1, ret = gpumap_mask_get(map, mask, row, &view);

	if (ret_result != NULL)
		*ret_result = CUDA_SUCCESS;
	if (ret != 0)
		return ret;
	if (view->export_id == 0)
		return -EOPNOTSUPP;
	if (view->export_id == cached->export_id)
		return 0;
	memset(&info, 0, sizeof(info));
	info.size = sizeof(info);
	ret = gpumap_export_fd(map, view->export_id, &info, &fd);
	if (ret == -ENOENT && !gpumap_mask_holds(mask))
		return -EAGAIN;
	if (ret != 0)
		return ret;
	result =
		gpumap_cuda_import(fd, &info, GPUMAP_BUFFER_READ_ONLY, &memory);
	close(fd);
	if (result == CUDA_SUCCESS && cached->memory.mapped != 0) {
		result = cuCtxSynchronize();
		if (result == CUDA_SUCCESS)
			result = gpumap_cuda_release(&cached->memory);
		if (result != CUDA_SUCCESS)
			gpumap_cuda_release(&memory);
	}
	if (ret_result != NULL)
		*ret_result = result;
	if (result != CUDA_SUCCESS)
		return -EIO;
	cached->memory = memory;
	cached->export_id = view->export_id;
	return 0;
}

/*
 * gpumap_cuda_mask_release - release the import; all zero is allowed
 *
 * Returns	as gpumap_cuda_release(); the same work must have ended
 * Cost		as gpumap_cuda_release()
 * Threads	any
 */
static inline CUresult gpumap_cuda_mask_release(struct gpumap_cuda_mask *cached)
{
	CUresult result = gpumap_cuda_release(&cached->memory);

	if (result == CUDA_SUCCESS)
		cached->export_id = 0;
	return result;
}

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_memory - memory of the device, of the worker and of clients.
 *
 * Memory that can be exported is an allocation in whole granules, apart from
 * its address: it exists as long as a process has a handle, a mapping or a
 * descriptor of it.
 */

#include "agent/device/cuda.h"

#include <errno.h>
#include <stdlib.h>

enum kind {
	ALLOCATED,
	PINNED,
	REACHED,
	MADE,    /* mapped, and its handle kept */
	IMPORTED /* mapped: its mapping keeps it */
};

struct mem {
	struct gm_gpu_mem mem;
	uint32_t kind; /* enum kind */
	gm_cu_ptr at;
	gm_cu_handle handle;
};

static struct mem *new_mem(uint32_t kind, uint64_t bytes)
{
	struct mem *m = calloc(1, sizeof(*m));

	if (m)
		*m = (struct mem){ .mem.bytes = bytes, .kind = kind };
	return m;
}

/* The memory is there; on failure it goes. */
static int give(struct mem *m, int rc, struct gm_gpu_mem **ret_mem)
{
	if (rc < 0) {
		free(m);
		return rc;
	}
	m->mem.address = m->at;
	*ret_mem = &m->mem;
	return 0;
}

int gm_cuda_pin(struct gm_gpu *gpu, uint64_t bytes, struct gm_gpu_mem **ret_mem)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	struct mem *m = new_mem(PINNED, bytes);
	void *host;
	int rc = m ? GM_CUDA_CALL(cuda, cuMemHostAlloc, &host, bytes,
				  GM_CU_MEMHOSTALLOC_PORTABLE |
					  GM_CU_MEMHOSTALLOC_DEVICEMAP)
		   : -ENOMEM;

	/* Memory that the driver has allocated has one address for all. */
	if (rc == 0 && cuda->driver->cuMemHostGetDevicePointer(
			       &m->at, host, 0) != GM_CU_SUCCESS)
		m->at = (gm_cu_ptr)(uintptr_t)host;
	if (rc == 0)
		m->mem.host = host;
	return give(m, rc, ret_mem);
}

static int reach(struct gm_cuda *cuda, struct mem *m, bool writable)
{
	const struct gm_driver *cu = cuda->driver;
	uint32_t flags = GM_CU_MEMHOSTREGISTER_PORTABLE |
			 GM_CU_MEMHOSTREGISTER_DEVICEMAP;
	int rc;

	if (!writable)
		flags |= GM_CU_MEMHOSTREGISTER_READ_ONLY;
	/* The pages belong to a client, and so do errors over them. */
	rc = gm_cuda_suspect(cuda, cu->cuMemHostRegister(m->mem.host,
							 m->mem.bytes, flags));
	if (rc < 0)
		return rc;
	rc = GM_CUDA_CALL(cuda, cuMemHostGetDevicePointer, &m->at, m->mem.host,
			  0);
	if (rc < 0)
		(void)cu->cuMemHostUnregister(m->mem.host);
	return rc;
}

int gm_cuda_reach(struct gm_gpu *gpu, char *at, uint64_t bytes, bool writable,
		  struct gm_gpu_mem **ret_mem)
{
	struct mem *m = new_mem(REACHED, bytes);

	if (!m)
		return -ENOMEM;
	m->mem.host = at;
	return give(m, reach((struct gm_cuda *)gpu, m, writable), ret_mem);
}

static struct gm_cu_memory properties(const struct gm_cuda *cuda)
{
	return (struct gm_cu_memory){
		.type = GM_CU_MEM_ALLOCATION_TYPE_PINNED,
		.handles = GM_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = GM_CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = cuda->ordinal },
	};
}

/* To whole granules. */
static int round_up(struct gm_cuda *cuda, uint64_t *bytes)
{
	struct gm_cu_memory memory = properties(cuda);
	size_t granule = cuda->granule;
	int rc = 0;

	if (!cuda->can_export)
		return -EOPNOTSUPP;
	if (!granule)
		rc = GM_CUDA_CALL(cuda, cuMemGetAllocationGranularity, &granule,
				  &memory, GM_CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (rc < 0)
		return rc;
	cuda->granule = granule ? granule : 1;
	*bytes = (*bytes / cuda->granule + (*bytes % cuda->granule != 0)) *
		 cuda->granule;
	return 0;
}

/* An address for all of a handle's memory, which the device may use. */
static int map(struct gm_cuda *cuda, gm_cu_handle handle, uint64_t bytes,
	       gm_cu_ptr *ret_at)
{
	const struct gm_driver *cu = cuda->driver;
	const struct gm_cu_access access = {
		.location = { .type = GM_CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = cuda->ordinal },
		.flags = GM_CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	gm_cu_ptr at = 0;
	int rc = GM_CUDA_CALL(cuda, cuMemAddressReserve, &at, bytes, 0, 0, 0);

	if (rc < 0)
		return rc;
	/* More bytes than the memory has are refused here. */
	rc = gm_cuda_suspect(cuda, cu->cuMemMap(at, bytes, 0, handle, 0));
	if (rc < 0)
		goto out_free;
	rc = gm_cuda_suspect(cuda, cu->cuMemSetAccess(at, bytes, &access, 1));
	if (rc < 0)
		goto out_unmap;
	*ret_at = at;
	return 0;
out_unmap:
	(void)cu->cuMemUnmap(at, bytes);
out_free:
	(void)cu->cuMemAddressFree(at, bytes);
	return rc;
}

static int make(struct gm_cuda *cuda, struct mem *m)
{
	const struct gm_driver *cu = cuda->driver;
	struct gm_cu_memory memory = properties(cuda);
	int rc = GM_CUDA_CALL(cuda, cuMemCreate, &m->handle, m->mem.bytes,
			      &memory, 0);

	if (rc < 0)
		return rc;
	rc = map(cuda, m->handle, m->mem.bytes, &m->at);
	if (rc < 0)
		(void)cu->cuMemRelease(m->handle);
	return rc;
}

int gm_cuda_alloc(struct gm_gpu *gpu, uint64_t bytes, bool shareable,
		  struct gm_gpu_mem **ret_mem)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	int rc = shareable ? round_up(cuda, &bytes) : 0;
	struct mem *m;

	if (rc < 0)
		return rc;
	m = new_mem(shareable ? MADE : ALLOCATED, bytes);
	if (!m)
		return -ENOMEM;
	rc = shareable ? make(cuda, m)
		       : GM_CUDA_CALL(cuda, cuMemAlloc, &m->at, bytes);
	return give(m, rc, ret_mem);
}

void gm_cuda_release(struct gm_gpu *gpu, struct gm_gpu_mem *mem)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	struct mem *m = (struct mem *)mem;

	switch (m->kind) {
	case ALLOCATED:
		(void)GM_CUDA_CALL(cuda, cuMemFree, m->at);
		break;
	case PINNED:
		(void)GM_CUDA_CALL(cuda, cuMemFreeHost, mem->host);
		break;
	case REACHED:
		(void)GM_CUDA_CALL(cuda, cuMemHostUnregister, mem->host);
		break;
	default:
		(void)GM_CUDA_CALL(cuda, cuMemUnmap, m->at, mem->bytes);
		(void)GM_CUDA_CALL(cuda, cuMemAddressFree, m->at, mem->bytes);
		if (m->kind == MADE)
			(void)GM_CUDA_CALL(cuda, cuMemRelease, m->handle);
	}
	free(m);
}

int gm_cuda_export_fd(struct gm_gpu *gpu, struct gm_gpu_mem *mem)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	int fd = -1;
	int rc = GM_CUDA_CALL(cuda, cuMemExportToShareableHandle, &fd,
			      ((struct mem *)mem)->handle,
			      GM_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	return rc < 0 ? rc : fd;
}

/*
 * Memory of another card would be copied over a link that may corrupt what it
 * carries whatever the driver says of it, so none is taken unless it was asked
 * for.  gpumapd sends an export to its own row alone; the driver's number says
 * so once more, as far as it has one for a card that this process does not see.
 */
static int is_ours(struct gm_cuda *cuda, gm_cu_handle handle)
{
	struct gm_cu_memory memory = { 0 };
	int rc = gm_cuda_suspect(
		cuda, cuda->driver->cuMemGetAllocationPropertiesFromHandle(
			      &memory, handle));

	if (rc < 0)
		return rc;
	return memory.location.type == GM_CU_MEM_LOCATION_TYPE_DEVICE &&
			       memory.location.id == cuda->ordinal
		       ? 0
		       : -EOPNOTSUPP;
}

int gm_cuda_import_fd(struct gm_gpu *gpu, int fd, uint64_t bytes,
		      bool of_others, struct gm_gpu_mem **ret_mem)
{
	struct gm_cuda *cuda = (struct gm_cuda *)gpu;
	const struct gm_driver *cu = cuda->driver;
	int rc = round_up(cuda, &bytes);
	gm_cu_handle handle;
	struct mem *m;

	if (rc < 0)
		return rc;
	m = new_mem(IMPORTED, bytes);
	if (!m)
		return -ENOMEM;
	/* HIP reads the descriptor from memory, before 7.1. */
	rc = gm_cuda_suspect(
		cuda,
		cu->cuMemImportFromShareableHandle(
			&handle,
			cu->is_hip && cu->version < 7010 ? (void *)&fd
							 : (void *)(intptr_t)fd,
			GM_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	if (rc < 0)
		return give(m, rc, ret_mem);
	rc = of_others ? 0 : is_ours(cuda, handle);
	if (rc == 0)
		rc = map(cuda, handle, m->mem.bytes, &m->at);
	(void)GM_CUDA_CALL(cuda, cuMemRelease, handle);
	return give(m, rc, ret_mem);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_memory - memory of the device, of the worker and of clients.
 *
 * Kernels take no addresses, so each memory has a range of numbers of its own.
 * The ranges begin where the memory of the process never is, as far from each
 * other as a stray offset goes, and each as its memory does: at a page.
 *
 * Libraries for CPUs hand out memory that the machine does not have, and run
 * out of pages when they are used; so what was handed out is counted here, and
 * all that the device has is the end.
 */

#include "agent/device/opencl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define APART (UINT64_C(2) << 20)

static int make(struct gm_opencl *opencl, gm_cl_ulong flags, char *host,
		uint64_t bytes, struct gm_gpu_mem **ret_mem)
{
	struct gm_opencl_mem *m = calloc(1, sizeof(*m));
	gm_cl_int error = GM_CL_SUCCESS;

	if (!m)
		return -ENOMEM;
	m->is_twin = host && opencl->is_apart;
	if (host && !m->is_twin)
		flags |= GM_CL_MEM_USE_HOST_PTR;
	m->memory =
		opencl->cl->clCreateBuffer(opencl->context, flags, bytes,
					   m->is_twin ? NULL : host, &error);
	/* No work was given to the device: what it says is of this memory. */
	if (!m->memory || error != GM_CL_SUCCESS) {
		free(m);
		return error == GM_CL_MEM_OBJECT_ALLOCATION_FAILURE ||
				       error == GM_CL_OUT_OF_RESOURCES ||
				       error == GM_CL_OUT_OF_HOST_MEMORY ||
				       error == GM_CL_INVALID_BUFFER_SIZE
			       ? -ENOMEM
			       : -EIO;
	}
	m->mem.host = host;
	m->mem.bytes = bytes;
	m->mem.address = opencl->next;
	opencl->next += (bytes / APART + 2) * APART;
	*ret_mem = &m->mem;
	return 0;
}

int gm_opencl_alloc(struct gm_gpu *gpu, uint64_t bytes, bool shareable,
		    struct gm_gpu_mem **ret_mem)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	uint64_t used = gm_get(&opencl->used);
	int rc;

	if (shareable)
		return -EOPNOTSUPP;
	if (bytes > opencl->alloc_max || bytes > opencl->total - used)
		return -ENOMEM;
	rc = make(opencl, GM_CL_MEM_READ_WRITE, NULL, bytes, ret_mem);
	if (rc == 0) {
		((struct gm_opencl_mem *)*ret_mem)->counted = bytes;
		gm_put(&opencl->used, used + bytes);
	}
	return rc;
}

int gm_opencl_pin(struct gm_gpu *gpu, uint64_t bytes,
		  struct gm_gpu_mem **ret_mem)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	void *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (host == MAP_FAILED)
		return -ENOMEM;
	rc = make(opencl, GM_CL_MEM_READ_WRITE, host, bytes, ret_mem);
	if (rc < 0)
		munmap(host, bytes);
	else
		((struct gm_opencl_mem *)*ret_mem)->is_pinned = true;
	return rc;
}

int gm_opencl_reach(struct gm_gpu *gpu, char *at, uint64_t bytes, bool writable,
		    struct gm_gpu_mem **ret_mem)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;

	/* Staged, in whole. */
	if (bytes > opencl->alloc_max)
		return -ENOMEM;
	return make(opencl,
		    writable ? GM_CL_MEM_READ_WRITE : GM_CL_MEM_READ_ONLY, at,
		    bytes, ret_mem);
}

void gm_opencl_release(struct gm_gpu *gpu, struct gm_gpu_mem *mem)
{
	struct gm_opencl *opencl = (struct gm_opencl *)gpu;
	struct gm_opencl_mem *m = (struct gm_opencl_mem *)mem;

	(void)GM_OPENCL_CALL(opencl, clReleaseMemObject, m->memory);
	if (m->is_pinned)
		munmap(mem->host, mem->bytes);
	gm_put(&opencl->used, gm_get(&opencl->used) - m->counted);
	free(m);
}

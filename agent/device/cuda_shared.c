/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_shared - memory of the device that can be exported.
 *
 * Each such buffer is its own allocation, in whole granules, because a
 * descriptor stands for a whole allocation.  Memory and address are separate:
 * the memory exists as long as a process has a handle, a mapping or a
 * descriptor of it.
 */

#include "agent/device/cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpumap.h"

struct buffer {
	struct gm_buffer buffer;
	gm_cu_handle handle;
	bool has_handle;
	uint64_t mapped; /* bytes at buffer.address */
};

static struct gm_cu_memory properties(const struct gm_cuda *cuda)
{
	return (struct gm_cu_memory){
		.type = GM_CU_MEM_ALLOCATION_TYPE_PINNED,
		.handles = GM_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = GM_CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = cuda->ordinal },
	};
}

static int find_granule(struct gm_cuda *cuda)
{
	struct gm_cu_memory memory = properties(cuda);
	size_t bytes = 0;
	int rc;

	if (!cuda->can_export)
		return -EOPNOTSUPP;
	if (cuda->granule)
		return 0;
	rc = gm_cuda_check(cuda, cuda->driver->cuMemGetAllocationGranularity(
					 &bytes, &memory,
					 GM_CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	if (rc < 0)
		return rc;
	cuda->granule = bytes ? bytes : 1;
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
	int rc = gm_cuda_check(cuda,
			       cu->cuMemAddressReserve(&at, bytes, 0, 0, 0));

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

static void unmap(struct gm_cuda *cuda, gm_cu_ptr at, uint64_t bytes)
{
	const struct gm_driver *cu = cuda->driver;

	(void)gm_cuda_check(cuda, cu->cuMemUnmap(at, bytes));
	(void)gm_cuda_check(cuda, cu->cuMemAddressFree(at, bytes));
}

static int make(struct gm_cuda *cuda, struct buffer *b)
{
	const struct gm_driver *cu = cuda->driver;
	struct gm_cu_memory memory = properties(cuda);
	gm_cu_ptr at;
	int rc = gm_cuda_check(cuda, cu->cuMemCreate(&b->handle, b->mapped,
						     &memory, 0));

	if (rc < 0)
		return rc;
	rc = map(cuda, b->handle, b->mapped, &at);
	if (rc < 0)
		goto out_release;
	/* The previous user's data, of this process or another. */
	rc = gm_cuda_clear(cuda, at, b->mapped);
	if (rc < 0)
		goto out_unmap;
	b->buffer.address = at;
	b->has_handle = true;
	return 0;
out_unmap:
	unmap(cuda, at, b->mapped);
out_release:
	(void)cu->cuMemRelease(b->handle);
	return rc;
}

static struct buffer *new_buffer(struct gm_cuda *cuda, uint64_t bytes)
{
	struct buffer *b = calloc(1, sizeof(*b));
	uint64_t n = bytes / cuda->granule + (bytes % cuda->granule != 0);

	if (!b)
		return NULL;
	b->mapped = n * cuda->granule;
	b->buffer = (struct gm_buffer){
		.bytes = bytes,
		.charged = b->mapped,
		.flags = GPUMAP_BUFFER_EXPORTABLE,
	};
	return b;
}

int gm_cuda_shared_alloc(struct gm_cuda *cuda, uint64_t bytes,
			 struct gm_buffer **ret_buffer)
{
	struct buffer *b;
	int rc = find_granule(cuda);

	if (rc < 0)
		return rc;
	b = new_buffer(cuda, bytes);
	rc = b ? make(cuda, b) : -ENOMEM;
	if (rc < 0) {
		free(b);
		return rc;
	}
	*ret_buffer = &b->buffer;
	return 0;
}

void gm_cuda_shared_free(struct gm_cuda *cuda, struct gm_buffer *buffer)
{
	struct buffer *b = (struct buffer *)buffer;

	unmap(cuda, b->buffer.address, b->mapped);
	if (b->has_handle)
		(void)gm_cuda_check(cuda,
				    cuda->driver->cuMemRelease(b->handle));
	free(b);
}

int gm_cuda_export_fd(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct buffer *b = (struct buffer *)buffer;
	int fd = -1, rc = gm_cuda_bind(cuda);

	if (rc < 0)
		return rc;
	if (!(buffer->flags & GPUMAP_BUFFER_EXPORTABLE) || !b->has_handle)
		return -EOPNOTSUPP;
	rc = gm_cuda_check(
		cuda, cuda->driver->cuMemExportToShareableHandle(
			      &fd, b->handle,
			      GM_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (rc < 0)
		return rc;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
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

/* A descriptor of something else has many names among the driver's errors. */
static int import_refused(int rc)
{
	switch (rc) {
	case -EOPNOTSUPP:
	case -ENOMEM:
	case -ENOTRECOVERABLE:
		return rc;
	default:
		return -EINVAL;
	}
}

/* The mapping keeps the memory: its handle is not needed. */
static int map_import(struct gm_cuda *cuda, int fd, bool of_others,
		      struct buffer *b)
{
	const struct gm_driver *cu = cuda->driver;
	gm_cu_handle handle;
	gm_cu_ptr at;
	int rc = gm_cuda_suspect(
		cuda, cu->cuMemImportFromShareableHandle(
			      &handle, (void *)(intptr_t)fd,
			      GM_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));

	if (rc < 0)
		return import_refused(rc);
	rc = of_others ? 0 : is_ours(cuda, handle);
	if (rc == 0)
		rc = map(cuda, handle, b->mapped, &at);
	(void)gm_cuda_check(cuda, cu->cuMemRelease(handle));
	if (rc == 0)
		b->buffer.address = at;
	return rc;
}

static int import(struct gm_cuda *cuda, int fd, uint64_t bytes, bool of_others,
		  struct gm_buffer **ret_buffer)
{
	struct buffer *b;
	int rc = gm_cuda_bind(cuda);

	if (rc == 0)
		rc = find_granule(cuda);
	if (rc < 0)
		return rc;
	if (bytes == 0 || bytes > INT64_MAX)
		return -EINVAL;
	b = new_buffer(cuda, bytes);
	if (!b)
		return -ENOMEM;
	b->buffer.flags = 0;
	b->buffer.charged = 0; /* its maker is charged */
	b->buffer.imported = true;
	rc = map_import(cuda, fd, of_others, b);
	if (rc < 0) {
		free(b);
		return rc;
	}
	*ret_buffer = &b->buffer;
	return 0;
}

int gm_cuda_import_fd(struct gm_backend_device *dev, int fd, uint64_t bytes,
		      struct gm_buffer **ret_buffer)
{
	return import((struct gm_cuda *)dev, fd, bytes, false, ret_buffer);
}

int gm_cuda_import_peer(struct gm_backend_device *dev, int fd, uint64_t bytes,
			struct gm_buffer **ret_buffer)
{
	return import((struct gm_cuda *)dev, fd, bytes, true, ret_buffer);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_across - memory of other devices, and what others fetch.
 *
 * All of it waits for the device, on the slow thread's own stream.
 */

#include "agent/device/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Copies that began before one was refused go on in memory of ours. */
static int finish(struct gm_cuda *cuda, gm_cu_result result)
{
	gm_cu_result end = cuda->driver->cuStreamSynchronize(cuda->slow);
	int rc = gm_cuda_check(cuda, result);

	return rc < 0 ? rc : gm_cuda_check(cuda, end);
}

int gm_cuda_fetch(struct gm_backend_device *dev,
		  const struct gm_strides *strides)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	const struct gm_strides *p = strides;
	gm_cu_result result = 0;
	int rc = gm_cuda_bind(cuda);

	for (uint32_t i = 0; rc == 0 && result == 0 && i < p->n; i++)
		result = cuda->driver->cuMemcpyDtoHAsync(
			p->at + i * p->step, p->address + i * p->address_step,
			p->bytes, cuda->slow);
	return rc < 0 ? rc : finish(cuda, result);
}

int gm_cuda_store(struct gm_backend_device *dev,
		  const struct gm_strides *strides)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	const struct gm_strides *p = strides;
	gm_cu_result result = 0;
	int rc = gm_cuda_bind(cuda);

	for (uint32_t i = 0; rc == 0 && result == 0 && i < p->n; i++)
		result = cuda->driver->cuMemcpyHtoDAsync(
			p->address + i * p->address_step, p->at + i * p->step,
			p->bytes, cuda->slow);
	return rc < 0 ? rc : finish(cuda, result);
}

/* As a task would have it: to memory of this device first. */
static int compare(struct gm_cuda *cuda, const struct gm_buffer *theirs,
		   const struct gm_buffer *ours, const void *want)
{
	uint64_t bytes = ours->bytes;
	void *got = malloc(bytes);
	int rc = got ? 0 : -ENOMEM;

	if (rc == 0)
		rc = gm_cuda_clear(cuda, ours->address, bytes);
	if (rc == 0)
		rc = finish(cuda, cuda->driver->cuMemcpyDtoDAsync(
					  ours->address, theirs->address, bytes,
					  cuda->slow));
	if (rc == 0)
		rc = gm_device_fetch(&cuda->dev, ours->address, got, bytes);
	if (rc == 0 && memcmp(got, want, bytes) != 0)
		rc = -EIO;
	free(got);
	return rc;
}

int gm_cuda_try_peer(struct gm_backend_device *dev, int fd, const void *want,
		     uint64_t bytes)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct gm_buffer *theirs, *ours;
	int rc = gm_cuda_import_peer(dev, fd, bytes, &theirs);

	if (rc < 0)
		return rc;
	rc = gm_cuda_shared_alloc(cuda, bytes, &ours);
	if (rc == 0) {
		rc = compare(cuda, theirs, ours, want);
		gm_cuda_shared_free(cuda, ours);
	}
	gm_cuda_shared_free(cuda, theirs);
	return rc;
}

int gm_cuda_copy_peer(struct gm_backend_device *dev, uint64_t address, int fd,
		      uint64_t bytes)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct gm_buffer *theirs;
	int rc = gm_cuda_import_peer(dev, fd, bytes, &theirs);

	if (rc < 0)
		return rc;
	rc = finish(cuda, cuda->driver->cuMemcpyDtoDAsync(
				  address, theirs->address, bytes, cuda->slow));
	gm_cuda_shared_free(cuda, theirs);
	return rc;
}

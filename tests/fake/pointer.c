/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/fake/driver.h"

static bool is_on_device(const struct fake_range *range)
{
	return range->kind == FAKE_RANGE_DEVICE ||
	       range->kind == FAKE_RANGE_MAPPED;
}

/* Addresses of the piece at @address on the card's side and the host's. */
static uint64_t device_side(const struct fake_range *r, uint64_t address)
{
	if (r->kind == FAKE_RANGE_REGISTERED && r->alias)
		return r->alias + (address - r->base);
	return address;
}

static uint64_t host_side(const struct fake_range *r, uint64_t address)
{
	if (r->kind == FAKE_RANGE_ALIAS)
		return r->alias + (address - r->base);
	return is_on_device(r) ? 0 : address;
}

/* A NULL @range is memory that the driver does not know. */
static CUresult get(const struct fake_range *range, uint64_t address,
		    CUpointer_attribute attribute, void *data)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data =
			range && range->ctx
				? (CUcontext)(uintptr_t)range->ctx->handle
				: NULL;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = !range ? 0
					: is_on_device(range)
						? CU_MEMORYTYPE_DEVICE
						: CU_MEMORYTYPE_HOST;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = range ? device_side(range, address) : 0;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (range && !host_side(range, address))
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data =
			range ? (void *)(uintptr_t)host_side(range, address)
			      : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = range && range->dev   ? range->dev->ordinal
			       : range && range->ctx ? range->ctx->dev->ordinal
						     : -2;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data =
			range ? range->base +
					range->offset * (range->kind ==
							 FAKE_RANGE_REGISTERED)
			      : 0;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = range ? range->bytes : 0;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static const struct fake_range *find(uint64_t address)
{
	const struct fake_range *range = fake_space_at(address);

	return range && range->kind != FAKE_RANGE_RESERVED ? range : NULL;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
			       CUdeviceptr address)
{
	const struct fake_range *range;
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	range = find(address);
	return fake_leave(data && range ? get(range, address, attribute, data)
					: CUDA_ERROR_INVALID_VALUE);
}

/* Unlike the call for one, it answers for any pointer. */
CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
				void **data, CUdeviceptr address)
{
	const struct fake_range *range;
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (!n || !attributes || !data)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	range = find(address);
	for (unsigned int i = 0; i < n; i++)
		if (get(range, address, attributes[i], data[i]))
			(void)get(NULL, address, attributes[i], data[i]);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
				 CUdeviceptr address)
{
	const struct fake_range *range;
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	range = find(address);
	if (!range)
		return fake_leave(CUDA_ERROR_NOT_FOUND);
	if (base)
		*base = range->base;
	if (bytes)
		*bytes = range->bytes;
	return fake_leave(CUDA_SUCCESS);
}

/*
 * Old-style sharing between processes is for memory of cuMemAlloc only, and
 * gpumap does without: the stand-in has the refusal, not the sharing.
 */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	const struct fake_range *range;
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	range = find(address);
	return fake_leave(handle && range && range->kind == FAKE_RANGE_DEVICE
				  ? CUDA_ERROR_NOT_SUPPORTED
				  : CUDA_ERROR_INVALID_VALUE);
}

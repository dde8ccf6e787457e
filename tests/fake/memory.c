/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Memory of a card, and the host's as far as the driver pins it.  Allocating,
 * freeing and pinning wait for running kernels; freeing waits for all work.
 */

#include <string.h>
#include <sys/mman.h>

#include "tests/fake/driver.h"

#define PAGE           UINT64_C(4096)
#define PAGE_ENTRY     UINT64_C(8) /* bytes of the card's page table */
#define SMALL_ROUND    (UINT64_C(64) << 10)
#define GIB            ((double)(UINT64_C(1) << 30))
#define REGISTER_LIMIT (UINT64_C(512) << 30) /* as drivers since R580 */

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Bytes of the card that an allocation of @bytes takes: small pieces share a
 * large one. */
static uint64_t charge_of(uint64_t bytes)
{
	return round_up(bytes,
			bytes < FAKE_GRANULE ? SMALL_ROUND : FAKE_GRANULE);
}

static bool charge(struct fake_device *dev, uint64_t bytes)
{
	bool is_had;

	fake_lock(&fake.hw);
	is_had = fake_charge(&fake.hw, dev->gpu, bytes);
	fake_unlock(&fake.hw);
	return is_had;
}

static void refund(struct fake_device *dev, uint64_t bytes)
{
	fake_lock(&fake.hw);
	fake_refund(&fake.hw, dev->gpu, bytes);
	fake_unlock(&fake.hw);
}

/* Fresh memory holds an earlier owner's bytes. */
static void litter(uint8_t *at, uint64_t bytes)
{
	uint64_t n = bytes < PAGE ? bytes : PAGE;

	memset(at, 0xa5, n);
	memset(at + bytes - n, 0xa5, n);
}

static CUresult allocate(struct fake_context *ctx, uint64_t bytes,
			 CUdeviceptr *ret_address)
{
	struct fake_range range = { .kind = FAKE_RANGE_DEVICE,
				    .bytes = bytes,
				    .ctx = ctx,
				    .dev = ctx->dev,
				    .gpu = ctx->dev->gpu,
				    .charged = charge_of(bytes) };

	if (!charge(ctx->dev, range.charged))
		return CUDA_ERROR_OUT_OF_MEMORY;
	range.base =
		fake_space_find(round_up(bytes, PAGE),
				bytes < FAKE_GRANULE ? PAGE : FAKE_GRANULE);
	if (!range.base ||
	    mmap(fake_shadow(range.base), bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		 0) == MAP_FAILED ||
	    !fake_space_add(&range)) {
		refund(ctx->dev, range.charged);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	litter(fake_shadow(range.base), bytes);
	*ret_address = range.base;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (!address || !bytes || bytes > UINT64_MAX / 2)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = fake_context_calm(ctx);
	if (!result)
		result = allocate(ctx, bytes, address);
	return fake_leave(result);
}

static void forget(struct fake_range *range)
{
	struct fake_range *alias;

	switch (range->kind) {
	case FAKE_RANGE_DEVICE:
		mmap(fake_shadow(range->base), range->bytes, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		     -1, 0);
		refund(range->dev, range->charged);
		break;
	case FAKE_RANGE_HOST:
		munmap((void *)(uintptr_t)range->base, range->bytes);
		break;
	case FAKE_RANGE_REGISTERED:
		refund(range->ctx->dev, range->charged);
		alias = range->alias ? fake_space_at(range->alias) : NULL;
		if (alias)
			fake_space_remove(alias);
		break;
	default:
		break;
	}
	fake_space_remove(range);
}

void fake_memory_forget(struct fake_context *ctx)
{
	struct fake_range *range;

	while ((range = fake_space_of(ctx)))
		forget(range);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	struct fake_context *ctx;
	struct fake_range *range;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (!address)
		return fake_leave(CUDA_SUCCESS);
	range = fake_space_at(address);
	if (!range || range->kind != FAKE_RANGE_DEVICE ||
	    range->base != address)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = fake_context_alone(range->ctx);
	/* While the lock was away another thread may have freed it. */
	range = fake_space_at(address);
	if (!result && range && range->base == address)
		forget(range);
	return fake_leave(result);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	struct fake_context *ctx;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (!free_bytes || !total)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	fake_lock(&fake.hw);
	*free_bytes = fake_free_bytes(&fake.hw, ctx->dev->gpu);
	*total = fake.hw.board->gpus[ctx->dev->gpu].total;
	fake_unlock(&fake.hw);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
	const unsigned int known = CU_MEMHOSTALLOC_PORTABLE |
				   CU_MEMHOSTALLOC_DEVICEMAP |
				   CU_MEMHOSTALLOC_WRITECOMBINED;
	struct fake_range range = { .kind = FAKE_RANGE_HOST,
				    .gpu = FAKE_ANY_GPU,
				    .flags = flags };
	CUresult result = fake_enter_context(&range.ctx);
	void *at;

	if (result)
		return result;
	if (!pointer || !bytes || bytes > UINT64_MAX / 2 || flags & ~known)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = fake_context_calm(range.ctx);
	if (result)
		return fake_leave(result);
	range.bytes = round_up(bytes, PAGE);
	at = mmap(NULL, range.bytes, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	range.base = (uint64_t)(uintptr_t)at;
	if (at == MAP_FAILED || !fake_space_add(&range)) {
		if (at != MAP_FAILED)
			munmap(at, range.bytes);
		return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*pointer = at;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
	return cuMemHostAlloc(pointer, bytes, 0);
}

CUresult cuMemFreeHost(void *pointer)
{
	uint64_t base = (uint64_t)(uintptr_t)pointer;
	struct fake_context *ctx;
	struct fake_range *range;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	range = fake_space_at(base);
	if (!range || range->kind != FAKE_RANGE_HOST || range->base != base)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = fake_context_alone(range->ctx);
	range = fake_space_at(base);
	if (!result && range && range->base == base)
		forget(range);
	return fake_leave(result);
}

static CUresult check_register(struct fake_context *ctx, uint64_t address,
			       uint64_t bytes, unsigned int flags)
{
	const unsigned int known = CU_MEMHOSTREGISTER_PORTABLE |
				   CU_MEMHOSTREGISTER_DEVICEMAP |
				   CU_MEMHOSTREGISTER_READ_ONLY;
	bool is_read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;

	if (!address || !bytes || flags & ~known ||
	    bytes > UINT64_MAX / 2 - address)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_attribute(ctx->dev,
			    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (is_read_only &&
	    !fake_attribute(
		    ctx->dev,
		    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (bytes >= REGISTER_LIMIT)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (fake_space_overlap(address, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return fake_space_is_mapped(address, bytes, !is_read_only)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

/* A second address for the card, unless it can use the host's own. */
static bool add_alias(struct fake_range *range)
{
	struct fake_range alias = *range;

	if (fake_attribute(
		    range->ctx->dev,
		    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM))
		return true;
	alias.kind = FAKE_RANGE_ALIAS;
	alias.base = fake_space_find(range->bytes, PAGE);
	alias.alias = range->base;
	range->alias = alias.base;
	return alias.base && fake_space_add(&alias);
}

/* A fault's number for registrations on the card, or @none. */
static uint64_t planned(const struct fake_context *ctx,
			enum fake_fault_kind kind, uint64_t none)
{
	const struct fake_fault *fault;
	uint64_t value;

	fake_lock(&fake.hw);
	fault = fake_fault(&fake.hw, kind, ctx->dev->gpu);
	value = fault ? fault->value : none;
	fake_unlock(&fake.hw);
	return value;
}

/* To pin pages takes its time, and nothing else goes on meanwhile.  The card
 * has page tables of its own for them. */
static CUresult pin(struct fake_context *ctx, uint64_t bytes,
		    uint64_t *ret_charged)
{
	uint64_t ns = planned(ctx, FAKE_REGISTRATIONS_TAKE, 0);

	fake_context_sleep(ctx, (uint64_t)((double)bytes * (double)ns / GIB));
	*ret_charged = bytes / PAGE * PAGE_ENTRY;
	return bytes > planned(ctx, FAKE_REGISTRATIONS_MOST, UINT64_MAX) ||
			       !charge(ctx->dev, *ret_charged)
		       ? CUDA_ERROR_OUT_OF_MEMORY
		       : CUDA_SUCCESS;
}

/* Pages are pinned, so whole pages are registered. */
CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
	uint64_t address = (uint64_t)(uintptr_t)pointer;
	struct fake_range range = { .kind = FAKE_RANGE_REGISTERED,
				    .gpu = FAKE_ANY_GPU,
				    .flags = flags };
	CUresult result = fake_enter_context(&range.ctx);

	if (result)
		return result;
	range.offset = address % PAGE;
	range.base = address - range.offset;
	range.bytes = round_up(range.offset + bytes, PAGE);
	result = fake_context_calm(range.ctx);
	if (!result)
		result = check_register(range.ctx, range.base,
					bytes ? range.bytes : 0, flags);
	if (!result)
		result = pin(range.ctx, range.bytes, &range.charged);
	if (!result && (!add_alias(&range) || !fake_space_add(&range))) {
		refund(range.ctx->dev, range.charged);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return fake_leave(result);
}

static struct fake_range *registered_at(uint64_t address)
{
	struct fake_range *range = fake_space_at(address);

	return range && range->kind == FAKE_RANGE_REGISTERED &&
			       range->base + range->offset == address
		       ? range
		       : NULL;
}

CUresult cuMemHostUnregister(void *pointer)
{
	uint64_t address = (uint64_t)(uintptr_t)pointer;
	struct fake_context *ctx;
	struct fake_range *range;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	if (!pointer)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	range = registered_at(address);
	if (!range)
		return fake_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	result = fake_context_alone(range->ctx);
	range = registered_at(address);
	if (!result && range)
		forget(range);
	return fake_leave(result);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer,
				      unsigned int flags)
{
	uint64_t at = (uint64_t)(uintptr_t)pointer;
	struct fake_context *ctx;
	struct fake_range *range;
	CUresult result = fake_enter_context(&ctx);

	if (result)
		return result;
	range = fake_space_at(at);
	if (!address || flags || !range ||
	    (range->kind != FAKE_RANGE_HOST &&
	     !(range->kind == FAKE_RANGE_REGISTERED &&
	       range->flags & CU_MEMHOSTREGISTER_DEVICEMAP)))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	*address = range->alias ? range->alias + (at - range->base) : at;
	return fake_leave(CUDA_SUCCESS);
}

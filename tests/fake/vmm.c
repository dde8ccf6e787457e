/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Memory by handles, addresses apart from it, and both across processes.
 *
 * A handle refers to a piece of the hardware's file, and so does an exported
 * descriptor; either keeps the memory alive in whatever process it is, and so
 * does a mapping after its handle has been released.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fake/driver.h"

struct fake_memory {
	uint64_t handle;
	unsigned int handles; /* times that the handle was had, less released */
	unsigned int mappings; /* that need it */
	struct fake_reference ref;
	struct fake_device *dev; /* NULL: on a card that is not visible here */
};

static bool is_granular(uint64_t n)
{
	return n % FAKE_GRANULE == 0;
}

/* The device of a location, NULL where it is none. */
static struct fake_device *location_of(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE
		       ? fake_device(location->id)
		       : NULL;
}

static CUresult check_prop(const CUmemAllocationProp *prop,
			   struct fake_device **ret_dev)
{
	const unsigned int types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	/* Host memory by handles came late, and gpumap does without. */
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    prop->requestedHandleTypes & ~types)
		return CUDA_ERROR_NOT_SUPPORTED;
	*ret_dev = location_of(&prop->location);
	if (!*ret_dev)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!fake_attribute(
		    *ret_dev,
		    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
	    (prop->requestedHandleTypes &&
	     !fake_attribute(
		     *ret_dev,
		     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)))
		return CUDA_ERROR_NOT_SUPPORTED;
	return fake_health(*ret_dev);
}

CUresult cuMemGetAllocationGranularity(size_t *bytes,
				       const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	struct fake_device *dev;
	CUresult result = fake_enter();

	if (result)
		return result;
	result = bytes ? check_prop(prop, &dev) : CUDA_ERROR_INVALID_VALUE;
	if (!result && option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
	    option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*bytes = FAKE_GRANULE;
	return fake_leave(result);
}

/* A handle for a reference, which is its own from then on. */
static CUresult adopt(struct fake_reference *ref, struct fake_device *dev,
		      CUmemGenericAllocationHandle *ret_handle)
{
	struct fake_memory *memory = calloc(1, sizeof(*memory));

	if (memory)
		memory->handle = fake_handle_new(FAKE_HANDLE, memory);
	if (!memory || !memory->handle) {
		free(memory);
		fake_object_drop(ref);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memory->handles = 1;
	memory->ref = *ref;
	memory->dev = dev;
	*ret_handle = memory->handle;
	return CUDA_SUCCESS;
}

/* Release allocations that this process no longer needs. */
static void let_go(struct fake_memory *memory)
{
	if (memory->handles == 0)
		fake_handle_drop(FAKE_HANDLE, memory->handle);
	if (memory->handles || memory->mappings)
		return;
	fake_object_drop(&memory->ref);
	free(memory);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct fake_reference ref;
	struct fake_device *dev;
	CUresult result = fake_enter();
	int r;

	if (result)
		return result;
	result = check_prop(prop, &dev);
	if (!result && (!handle || !bytes || !is_granular(bytes) || flags))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result)
		return fake_leave(result);
	fake_lock(&fake.hw);
	r = fake_object_make(&fake.hw, dev->gpu, bytes,
			     prop->requestedHandleTypes, &ref);
	fake_unlock(&fake.hw);
	return fake_leave(r ? CUDA_ERROR_OUT_OF_MEMORY
			    : adopt(&ref, dev, handle));
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct fake_memory *memory;
	CUresult result = fake_enter();

	if (result)
		return result;
	memory = fake_handle_get(FAKE_HANDLE, handle);
	if (!memory)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	memory->handles--;
	let_go(memory);
	return fake_leave(CUDA_SUCCESS);
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
				       CUmemGenericAllocationHandle handle)
{
	const struct fake_memory *memory;
	CUresult result = fake_enter();

	if (result)
		return result;
	memory = fake_handle_get(FAKE_HANDLE, handle);
	if (!memory || !prop)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	memset(prop, 0, sizeof(*prop));
	prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop->requestedHandleTypes =
		(CUmemAllocationHandleType)memory->ref.handle_types;
	prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop->location.id = memory->dev ? memory->dev->ordinal : -1;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void *shareable,
				      CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type,
				      unsigned long long flags)
{
	const struct fake_memory *memory;
	struct fake_reference again;
	CUresult result = fake_enter();
	int r;

	if (result)
		return result;
	memory = fake_handle_get(FAKE_HANDLE, handle);
	if (!memory || !shareable || flags ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(memory->ref.handle_types & type))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	fake_lock(&fake.hw);
	r = fake_object_again(&fake.hw, &memory->ref, &again);
	fake_unlock(&fake.hw);
	if (r)
		return fake_leave(CUDA_ERROR_OPERATING_SYSTEM);
	*(int *)shareable = again.fd;
	return fake_leave(CUDA_SUCCESS);
}

/* NULL: a card that CUDA_VISIBLE_DEVICES hides, whose memory may be mapped all
 * the same. */
static struct fake_device *device_of(uint32_t gpu)
{
	for (uint32_t i = 0; i < fake.n_devices; i++)
		if (fake.devices[i].gpu == gpu)
			return &fake.devices[i];
	return NULL;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
					void *shareable,
					CUmemAllocationHandleType type)
{
	struct fake_reference ref;
	CUresult result = fake_enter();
	int r;

	if (result)
		return result;
	if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	fake_lock(&fake.hw);
	r = fake_object_from(&fake.hw, (int)(intptr_t)shareable, &ref);
	fake_unlock(&fake.hw);
	return fake_leave(r ? CUDA_ERROR_INVALID_VALUE
			    : adopt(&ref, device_of(ref.gpu), handle));
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes,
			     size_t alignment, CUdeviceptr hint,
			     unsigned long long flags)
{
	struct fake_range range = { .kind = FAKE_RANGE_RESERVED,
				    .bytes = bytes };
	CUresult result = fake_enter();

	if (result)
		return result;
	if (!address || !bytes || !is_granular(bytes) || flags ||
	    alignment & (alignment - 1))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	if (alignment < FAKE_GRANULE)
		alignment = FAKE_GRANULE;
	/* A hint is no promise. */
	range.base = fake_space_find(bytes, alignment);
	if (!range.base || !fake_space_add(&range))
		return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*address = range.base;
	return fake_leave(CUDA_SUCCESS);
}

/* The reservation that holds all of a range. */
static struct fake_range *reservation(uint64_t base, uint64_t bytes)
{
	struct fake_range *r = fake_space_reserved(base);

	return r && bytes <= r->base + r->bytes - base ? r : NULL;
}

/* The first mapping in a range. */
static struct fake_range *mapping_in(uint64_t base, uint64_t bytes)
{
	for (uint64_t at = base; at < base + bytes; at += FAKE_GRANULE) {
		struct fake_range *r = fake_space_at(at);

		if (r && r->kind == FAKE_RANGE_MAPPED)
			return r;
	}
	return NULL;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	struct fake_range *range;
	CUresult result = fake_enter();

	if (result)
		return result;
	range = fake_space_reserved(address);
	if (!range || range->base != address || range->bytes != bytes ||
	    mapping_in(address, bytes))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	fake_space_remove(range);
	return fake_leave(CUDA_SUCCESS);
}

static void hide(uint64_t base, uint64_t bytes)
{
	mmap(fake_shadow(base), bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct fake_range range = { .kind = FAKE_RANGE_MAPPED,
				    .base = address,
				    .bytes = bytes };
	struct fake_memory *memory;
	CUresult result = fake_enter();

	if (result)
		return result;
	memory = fake_handle_get(FAKE_HANDLE, handle);
	/* "Currently must be zero", says the interface of the offset. */
	if (!memory || !bytes || !is_granular(bytes) || !is_granular(address) ||
	    offset || flags || bytes > memory->ref.bytes ||
	    !reservation(address, bytes) || mapping_in(address, bytes))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	range.memory = memory;
	range.dev = memory->dev;
	range.gpu = memory->ref.gpu;
	if (mmap(fake_shadow(address), bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, memory->ref.fd,
		 (off_t)memory->ref.offset) == MAP_FAILED)
		return fake_leave(CUDA_ERROR_MAP_FAILED);
	if (!fake_space_add(&range)) {
		hide(address, bytes);
		return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	memory->mappings++;
	return fake_leave(CUDA_SUCCESS);
}

/* Whether a range is made up of whole mappings. */
static bool is_whole(uint64_t base, uint64_t bytes)
{
	uint64_t at = base;

	while (at < base + bytes) {
		const struct fake_range *r = fake_space_at(at);

		if (!r || r->kind != FAKE_RANGE_MAPPED || r->base != at)
			return false;
		at += r->bytes;
	}
	return at == base + bytes;
}

/* Any context of this process may use a mapping of one of them. */
static CUresult drain_all(void)
{
	CUresult result = CUDA_SUCCESS;

	for (struct fake_context *c = fake.contexts; c && !result; c = c->next)
		result = fake_context_alone(c);
	return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	if (!bytes || !is_whole(address, bytes))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = drain_all();
	if (result || !is_whole(address, bytes))
		return fake_leave(result ? result : CUDA_ERROR_INVALID_VALUE);
	for (uint64_t at = address, n; at < address + bytes; at += n) {
		struct fake_range *r = fake_space_at(at);
		struct fake_memory *memory = r->memory;

		n = r->bytes;
		hide(r->base, r->bytes);
		fake_space_remove(r);
		memory->mappings--;
		let_go(memory);
	}
	return fake_leave(CUDA_SUCCESS);
}

static CUresult check_access(const CUmemAccessDesc *access, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!location_of(&access[i].location))
			return CUDA_ERROR_INVALID_DEVICE;
		if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static void set_access(struct fake_range *r, const CUmemAccessDesc *access)
{
	uint32_t bit = UINT32_C(1) << access->location.id;

	r->readers &= ~bit;
	r->writers &= ~bit;
	if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		r->readers |= bit;
	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		r->writers |= bit;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
			const CUmemAccessDesc *access, size_t n)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	if (!bytes || !access || !n || !is_whole(address, bytes))
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	result = check_access(access, n);
	if (!result)
		result = drain_all();
	for (size_t i = 0; i < n && !result; i++)
		for (uint64_t at = address; at < address + bytes;) {
			struct fake_range *r = fake_space_at(at);

			set_access(r, &access[i]);
			at += r->bytes;
		}
	return fake_leave(result);
}

CUresult cuMemGetAccess(unsigned long long *flags,
			const CUmemLocation *location, CUdeviceptr address)
{
	const struct fake_range *r;
	CUresult result = fake_enter();
	uint32_t bit;

	if (result)
		return result;
	r = fake_space_at(address);
	if (!flags || !location || !location_of(location) || !r ||
	    r->kind != FAKE_RANGE_MAPPED)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	bit = UINT32_C(1) << location->id;
	*flags = r->writers & bit   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : r->readers & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
				    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return fake_leave(CUDA_SUCCESS);
}

/* The handle of mapped memory, from any address in the mapping. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
				     void *address)
{
	struct fake_memory *memory;
	struct fake_range *r;
	CUresult result = fake_enter();

	if (result)
		return result;
	r = fake_space_at((uintptr_t)address);
	if (!handle || !r || r->kind != FAKE_RANGE_MAPPED)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	memory = r->memory;
	if (memory->handles == 0) {
		uint64_t again = fake_handle_new(FAKE_HANDLE, memory);

		if (!again)
			return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
		memory->handle = again;
	}
	memory->handles++;
	*handle = memory->handle;
	return fake_leave(CUDA_SUCCESS);
}

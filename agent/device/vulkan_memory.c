/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vulkan_memory - memory of the device, of the worker and of clients.
 *
 * Each is a buffer with memory of its own and an address.  Drivers for CPUs
 * hand out memory that the machine does not have, so what was handed out is
 * counted here, and all that the device has is the end.  An import counts as
 * memory that is handed out, unless it is another device's: its maker may free
 * it first.
 *
 * The two ends of a descriptor make memory of the same size: a multiple of
 * SHARED, of what was asked for.
 */

#include "agent/device/vulkan.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARED (UINT64_C(64) << 10)
#define FD     GM_VULKAN_FD
#define HOST   GM_VULKAN_HOST
#define VISIBLE                                \
	(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | \
	 VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define LOCAL  VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT

/* The memory that is to be made. */
struct wish {
	uint64_t bytes;
	VkExternalMemoryHandleTypeFlags kind; /* 0: nothing external */
	const void *how;                      /* of that */
	uint32_t types;                       /* a bit each */
	bool is_device; /* in its heap; else the processor has it, too */
	bool is_taken;  /* the driver has what it is of */
};

/* The first that has the flags, for drivers put what has fewer others first. */
static bool find_type(const struct gm_vulkan *vulkan, const struct wish *w,
		      VkMemoryPropertyFlags flags, uint32_t *ret_type)
{
	const VkPhysicalDeviceMemoryProperties *all = &vulkan->types;

	for (uint32_t i = 0; i < all->memoryTypeCount; i++) {
		const VkMemoryType *type = &all->memoryTypes[i];

		if (!(w->types >> i & 1) ||
		    (type->propertyFlags & flags) != flags ||
		    (w->is_device && type->heapIndex != vulkan->heap))
			continue;
		*ret_type = i;
		return true;
	}
	return false;
}

/* A buffer, memory for it, and its address. */
static VkResult back(struct gm_vulkan *vulkan, struct wish *w,
		     struct gm_vulkan_mem *m)
{
	const struct gm_vulkan_calls *vk = &vulkan->vk;
	const VkExternalMemoryBufferCreateInfo external = {
		GM_VK(EXTERNAL_MEMORY_BUFFER_CREATE_INFO),
		.handleTypes = w->kind,
	};
	const VkBufferCreateInfo buffer = {
		GM_VK(BUFFER_CREATE_INFO),
		.pNext = w->kind ? &external : NULL,
		.size = w->bytes,
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
			 VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
			 VK_BUFFER_USAGE_TRANSFER_DST_BIT |
			 VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
	};
	const VkMemoryAllocateFlagsInfo flags = {
		GM_VK(MEMORY_ALLOCATE_FLAGS_INFO),
		.pNext = w->how,
		.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
	};
	VkMemoryAllocateInfo info = {
		GM_VK(MEMORY_ALLOCATE_INFO),
		.pNext = &flags,
	};
	VkBufferDeviceAddressInfo address = { GM_VK(
		BUFFER_DEVICE_ADDRESS_INFO) };
	VkMemoryRequirements needs;
	VkResult result =
		vk->vkCreateBuffer(vulkan->device, &buffer, NULL, &m->buffer);

	if (result < 0)
		return result;
	vk->vkGetBufferMemoryRequirements(vulkan->device, m->buffer, &needs);
	w->types &= needs.memoryTypeBits;
	if (!find_type(vulkan, w, w->is_device ? LOCAL : VISIBLE | CACHED,
		       &info.memoryTypeIndex) &&
	    !find_type(vulkan, w, w->is_device ? LOCAL : VISIBLE,
		       &info.memoryTypeIndex))
		return VK_ERROR_FEATURE_NOT_PRESENT;
	/* A client's memory has no more than it has. */
	info.allocationSize = w->kind == HOST ? w->bytes : needs.size;
	if (needs.size > info.allocationSize)
		return VK_ERROR_FEATURE_NOT_PRESENT;
	result = vk->vkAllocateMemory(vulkan->device, &info, NULL, &m->memory);
	w->is_taken = result >= 0;
	if (w->is_taken)
		result = vk->vkBindBufferMemory(vulkan->device, m->buffer,
						m->memory, 0);
	if (result < 0)
		return result;
	address.buffer = m->buffer;
	m->mem.address = vk->vkGetBufferDeviceAddress(vulkan->device, &address);
	m->mem.bytes = w->bytes;
	return result;
}

static int make(struct gm_vulkan *vulkan, struct wish *w,
		struct gm_gpu_mem **ret_mem)
{
	struct gm_vulkan_mem *m = calloc(1, sizeof(*m));
	VkResult result;

	if (!m)
		return -ENOMEM;
	result = back(vulkan, w, m);
	if (result < 0) {
		gm_vulkan_release(&vulkan->gpu, &m->mem);
		return gm_stream_check(&vulkan->gpu, result);
	}
	*ret_mem = &m->mem;
	return 0;
}

static uint64_t memory_left(const struct gm_vulkan *vulkan)
{
	uint64_t all = vulkan->types.memoryHeaps[vulkan->heap].size;
	uint64_t used = gm_get(&vulkan->used);

	return used < all ? all - used : 0;
}

/* The budget of a CPU is that of the machine, and changes with all it does. */
int gm_vulkan_memory(struct gm_gpu *gpu, struct gm_device_memory *ret_memory)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	uint32_t heap = vulkan->heap;
	VkPhysicalDeviceMemoryBudgetPropertiesEXT b = { GM_VK(
		PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) };
	VkPhysicalDeviceMemoryProperties2 properties = {
		GM_VK(PHYSICAL_DEVICE_MEMORY_PROPERTIES_2), &b
	};
	uint64_t left;

	ret_memory->total = vulkan->types.memoryHeaps[heap].size;
	ret_memory->free = memory_left(vulkan);
	if (!vulkan->has_budget || vulkan->is_cpu)
		return 0;
	vulkan->vk.vkGetPhysicalDeviceMemoryProperties2(vulkan->physical,
							&properties);
	left = b.heapBudget[heap] > b.heapUsage[heap]
		       ? b.heapBudget[heap] - b.heapUsage[heap]
		       : 0;
	if (left < ret_memory->free)
		ret_memory->free = left;
	return 0;
}

static void count(struct gm_vulkan *vulkan, struct gm_gpu_mem *mem)
{
	((struct gm_vulkan_mem *)mem)->counted = mem->bytes;
	gm_put(&vulkan->used, gm_get(&vulkan->used) + mem->bytes);
}

static uint64_t shared_bytes(uint64_t bytes)
{
	return bytes / SHARED * SHARED + (bytes % SHARED ? SHARED : 0);
}

int gm_vulkan_alloc(struct gm_gpu *gpu, uint64_t bytes, bool shareable,
		    struct gm_gpu_mem **ret_mem)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	const VkExportMemoryAllocateInfo how = {
		GM_VK(EXPORT_MEMORY_ALLOCATE_INFO),
		.handleTypes = FD,
	};
	struct wish w = { .bytes = shareable ? shared_bytes(bytes) : bytes,
			  .kind = shareable ? FD : 0,
			  .how = shareable ? &how : NULL,
			  .types = UINT32_MAX,
			  .is_device = true };
	int rc;

	if (shareable && !vulkan->can_share)
		return -EOPNOTSUPP;
	if (w.bytes > vulkan->alloc_max || w.bytes > memory_left(vulkan))
		return -ENOMEM;
	rc = make(vulkan, &w, ret_mem);
	if (rc == 0)
		count(vulkan, *ret_mem);
	return rc;
}

int gm_vulkan_pin(struct gm_gpu *gpu, uint64_t bytes,
		  struct gm_gpu_mem **ret_mem)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	struct wish w = { .bytes = bytes, .types = UINT32_MAX };
	struct gm_gpu_mem *mem;
	void *host = NULL;
	int rc = make(vulkan, &w, &mem);

	if (rc < 0)
		return rc;
	rc = gm_stream_check(
		&vulkan->gpu,
		vulkan->vk.vkMapMemory(vulkan->device,
				       ((struct gm_vulkan_mem *)mem)->memory, 0,
				       VK_WHOLE_SIZE, 0, &host));
	if (rc < 0) {
		gm_vulkan_release(gpu, mem);
		return rc;
	}
	mem->host = host;
	*ret_mem = mem;
	return 0;
}

/* Drivers take memory that begins within a page, too, and write elsewhere. */
int gm_vulkan_reach(struct gm_gpu *gpu, char *at, uint64_t bytes, bool writable,
		    struct gm_gpu_mem **ret_mem)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	const VkImportMemoryHostPointerInfoEXT how = {
		GM_VK(IMPORT_MEMORY_HOST_POINTER_INFO_EXT),
		.handleType = HOST,
		.pHostPointer = at,
	};
	VkMemoryHostPointerPropertiesEXT can = { GM_VK(
		MEMORY_HOST_POINTER_PROPERTIES_EXT) };
	struct wish w = { .bytes = bytes, .kind = HOST, .how = &how };
	int rc;

	(void)writable;
	if (!vulkan->reach_each || (uintptr_t)at % vulkan->reach_each ||
	    bytes % vulkan->reach_each)
		return -EOPNOTSUPP;
	if (bytes > vulkan->alloc_max)
		return -ENOMEM;
	rc = gm_stream_check(&vulkan->gpu,
			     vulkan->vk.vkGetMemoryHostPointerPropertiesEXT(
				     vulkan->device, HOST, at, &can));
	w.types = can.memoryTypeBits;
	if (rc == 0)
		rc = make(vulkan, &w, ret_mem);
	if (rc == 0)
		(*ret_mem)->host = at;
	/* An address that the driver refuses is staged. */
	return rc == -EINVAL ? -EOPNOTSUPP : rc;
}

void gm_vulkan_release(struct gm_gpu *gpu, struct gm_gpu_mem *mem)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	struct gm_vulkan_mem *m = (struct gm_vulkan_mem *)mem;

	gm_put(&vulkan->used, gm_get(&vulkan->used) - m->counted);
	/* Else work that never ended may be using it. */
	if (!gm_stream_is_lost(gpu)) {
		vulkan->vk.vkDestroyBuffer(vulkan->device, m->buffer, NULL);
		vulkan->vk.vkFreeMemory(vulkan->device, m->memory, NULL);
	}
	free(m);
}

int gm_vulkan_export_fd(struct gm_gpu *gpu, struct gm_gpu_mem *mem)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	const VkMemoryGetFdInfoKHR info = {
		GM_VK(MEMORY_GET_FD_INFO_KHR),
		.memory = ((struct gm_vulkan_mem *)mem)->memory,
		.handleType = FD,
	};
	int fd = -1;
	int rc = gm_stream_check(&vulkan->gpu,
				 vulkan->vk.vkGetMemoryFdKHR(vulkan->device,
							     &info, &fd));

	return rc < 0 ? rc : fd;
}

/* A driver exports a memfd, with all bytes and what it adds, a buffer of the
 * kernel's, which has no type, or a device.  Some drivers read from a
 * descriptor before they look, and would wait. */
static bool may_be_memory(const struct gm_vulkan *vulkan, int fd,
			  uint64_t bytes)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return false;
	if (S_ISREG(status.st_mode))
		return (uint64_t)status.st_size >= bytes;
	return !(status.st_mode & S_IFMT) ||
	       (S_ISCHR(status.st_mode) && !vulkan->is_cpu);
}

/* The driver keeps the descriptor that it takes. */
int gm_vulkan_import_fd(struct gm_gpu *gpu, int fd, uint64_t bytes,
			bool of_others, struct gm_gpu_mem **ret_mem)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	VkImportMemoryFdInfoKHR how = {
		GM_VK(IMPORT_MEMORY_FD_INFO_KHR),
		.handleType = FD,
		.fd = may_be_memory(vulkan, fd, bytes) ? dup(fd) : -1,
	};
	struct wish w = { .bytes = shared_bytes(bytes),
			  .kind = FD,
			  .how = &how,
			  .types = UINT32_MAX,
			  .is_device = true };
	int rc;

	if (how.fd < 0)
		return -EINVAL;
	rc = vulkan->can_share ? make(vulkan, &w, ret_mem) : -EOPNOTSUPP;
	if (!w.is_taken)
		close(how.fd);
	if (rc == 0 && !of_others)
		count(vulkan, *ret_mem);
	return rc;
}

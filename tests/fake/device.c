/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tests/fake/driver.h"

#define UNKNOWN INT_MIN /* to this driver */

static const struct fake_gpu *gpu_of(const struct fake_device *dev)
{
	return &fake.hw.board->gpus[dev->gpu];
}

/* Attributes that all cards of the last ten years share. */
static const struct {
	CUdevice_attribute attribute;
	int value;
} common[] = {
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT_MAX },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
	{ CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
	{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
	{ CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1410000 },
	{ CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
	{ CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0 },
	{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1215000 },
	{ CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 4096 },
	{ CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 32 << 20 },
	{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3 },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
	{ CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0 },
	{ CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 0 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 0 },
	{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 49152 },
	{ CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0 },
	{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1 },
	{ CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0 },
	{ CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 0 },
	{ CU_DEVICE_ATTRIBUTE_NUMA_ID, -1 },
	{ CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0 },
	{ CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0 },
};

static int own_attribute(const struct fake_gpu *gpu,
			 CUdevice_attribute attribute)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return (int)gpu->cc_major;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return (int)gpu->cc_minor;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return (int)gpu->sms;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
		return (int)gpu->threads_per_sm;
	case CU_DEVICE_ATTRIBUTE_INTEGRATED:
		return gpu->is_integrated;
	case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
		return gpu->has_ecc;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
		return (int)gpu->compute_mode;
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
		return (int)gpu->domain;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return (int)gpu->bus;
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
		return (int)gpu->device;
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
		return gpu->numa_node;
	default:
		return UNKNOWN;
	}
}

int fake_attribute(struct fake_device *dev, CUdevice_attribute attribute)
{
	const struct fake_fault *f;
	int value = own_attribute(gpu_of(dev), attribute);

	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
		if (common[i].attribute == attribute)
			value = common[i].value;
	fake_lock(&fake.hw);
	f = fake_fault_of(&fake.hw, FAKE_ATTRIBUTE, dev->gpu, attribute);
	if (f)
		value = (int)f->to;
	fake_unlock(&fake.hw);
	return value;
}

/* Enter, and find the device; @is_asked: whether there is a place to answer. */
static CUresult enter_device(CUdevice device, bool is_asked,
			     struct fake_device **ret_dev)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	*ret_dev = fake_device(device);
	if (!*ret_dev)
		return fake_leave(CUDA_ERROR_INVALID_DEVICE);
	return is_asked ? CUDA_SUCCESS : fake_leave(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult result = fake_enter();

	if (result)
		return result;
	if (!count)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	*count = (int)fake.n_devices;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	struct fake_device *dev;
	CUresult result = enter_device(ordinal, device != NULL, &dev);

	if (result)
		return result;
	*device = dev->ordinal;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int n, CUdevice device)
{
	struct fake_device *dev;
	CUresult result = enter_device(device, name && n > 0, &dev);

	if (result)
		return result;
	snprintf(name, (size_t)n, "%s", gpu_of(dev)->name);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	struct fake_device *dev;
	CUresult result = enter_device(device, uuid != NULL, &dev);

	if (result)
		return result;
	memcpy(uuid->bytes, gpu_of(dev)->uuid, sizeof(uuid->bytes));
	return fake_leave(CUDA_SUCCESS);
}

/* The first form knows cards alone. */
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	const struct fake_gpu *gpus;
	struct fake_device *dev;
	CUresult result = enter_device(device, uuid != NULL, &dev);

	if (result)
		return result;
	gpus = fake.hw.board->gpus;
	memcpy(uuid->bytes, gpus[gpus[dev->gpu].parent].uuid,
	       sizeof(uuid->bytes));
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	struct fake_device *dev;
	CUresult result = enter_device(device, bytes != NULL, &dev);

	if (result)
		return result;
	*bytes = gpu_of(dev)->total;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
			      CUdevice device)
{
	struct fake_device *dev;
	CUresult result = enter_device(device, value != NULL, &dev);
	int v;

	if (result)
		return result;
	v = fake_attribute(dev, attribute);
	if (v == UNKNOWN)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	*value = v;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetPCIBusId(char *id, int n, CUdevice device)
{
	const struct fake_gpu *gpu;
	struct fake_device *dev;
	CUresult result = enter_device(device, id && n > 0, &dev);

	if (result)
		return result;
	gpu = gpu_of(dev);
	snprintf(id, (size_t)n, "%04x:%02x:%02x.0", gpu->domain, gpu->bus,
		 gpu->device);
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
	unsigned int domain, bus, slot, function = 0;
	CUresult result = fake_enter();

	if (result)
		return result;
	if (!device || !id ||
	    sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
		return fake_leave(CUDA_ERROR_INVALID_VALUE);
	for (uint32_t i = 0; i < fake.n_devices; i++) {
		const struct fake_gpu *gpu = gpu_of(&fake.devices[i]);

		if (gpu->domain != domain || gpu->bus != bus ||
		    gpu->device != slot || function)
			continue;
		*device = (CUdevice)i;
		return fake_leave(CUDA_SUCCESS);
	}
	return fake_leave(CUDA_ERROR_INVALID_DEVICE);
}

static bool has_peers(const struct fake_gpu *gpu)
{
	return !gpu->is_integrated && !fake_is_part(gpu);
}

/* Every discrete card reaches every other; a card has no way to itself, an
 * instance none to anything. */
static bool can_reach(const struct fake_device *a, const struct fake_device *b)
{
	return a != b && has_peers(gpu_of(a)) && has_peers(gpu_of(b));
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	struct fake_device *dev, *other = NULL;
	CUresult result = enter_device(device, can != NULL, &dev);

	if (result)
		return result;
	other = fake_device(peer);
	if (!other)
		return fake_leave(CUDA_ERROR_INVALID_DEVICE);
	*can = can_reach(dev, other);
	return fake_leave(CUDA_SUCCESS);
}

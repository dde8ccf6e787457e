/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* What NVML says of the system and of one card. */

#include <stdio.h>
#include <string.h>

#include "tests/fake/nvml.h"

#define DEFAULT_VERSION 13000

/* Enter a call about a card, with a place for its answer. */
static nvmlReturn_t enter(const char *name, nvmlDevice_t device,
			  const void *answer, const struct fake_gpu **ret_gpu)
{
	nvmlReturn_t result = fake_nvml_enter_card(name, device, ret_gpu);

	if (result)
		return result;
	return answer ? NVML_SUCCESS
		      : fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
}

static nvmlReturn_t answer_text(const char *from, char *text, unsigned int n)
{
	size_t length = strlen(from) + 1;

	if (!text)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (n < length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(text, from, length);
	return NVML_SUCCESS;
}

/* The driver's number goes with its CUDA version. */
static int cuda_version(void)
{
	const struct fake_fault *fault;
	int version;

	fake_lock(&fake_nvml.hw);
	fault = fake_fault(&fake_nvml.hw, FAKE_DRIVER, FAKE_ANY_GPU);
	version = fault ? (int)fault->value : DEFAULT_VERSION;
	fake_unlock(&fake_nvml.hw);
	return version;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	nvmlReturn_t result =
		fake_nvml_enter("nvmlSystemGetCudaDriverVersion_v2");

	if (result)
		return result;
	if (!version)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	*version = cuda_version();
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned int n)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlSystemGetDriverVersion");
	int version;
	char own[32];

	if (result)
		return result;
	version = cuda_version();
	snprintf(own, sizeof(own), "%d.%d.01",
		 version >= 13000 ? 580 : 525 + version % 1000 / 10 * 5,
		 version % 1000);
	return fake_nvml_leave(answer_text(own, text, n));
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned int n)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlSystemGetNVMLVersion");

	return result ? result
		      : fake_nvml_leave(answer_text("13.stand-in", text, n));
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned int n)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = enter("nvmlDeviceGetName", device, text, &gpu);

	return result ? result
		      : fake_nvml_leave(answer_text(gpu->name, text, n));
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = enter("nvmlDeviceGetIndex", device, index, &gpu);

	if (result)
		return result;
	*index = gpu->nvml_index;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetMinorNumber", device, minor, &gpu);

	if (result)
		return result;
	*minor = gpu->minor;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetPciInfo_v3", device, pci, &gpu);

	if (result)
		return result;
	memset(pci, 0, sizeof(*pci));
	pci->domain = gpu->domain;
	pci->bus = gpu->bus;
	pci->device = gpu->device;
	pci->pciDeviceId = 0x233010de;
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0",
		 gpu->domain, gpu->bus, gpu->device);
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
		 gpu->domain & 0xffff, gpu->bus & 0xff, gpu->device & 0xff);
	return fake_nvml_leave(NVML_SUCCESS);
}

/* Free bytes, or an error where this card keeps them to itself. */
static nvmlReturn_t free_of(nvmlDevice_t device, uint64_t *ret_bytes)
{
	struct fake_hardware *hw = &fake_nvml.hw;
	uint32_t gpu = fake_nvml_gpu(device);
	bool is_hidden;

	fake_lock(hw);
	is_hidden = fake_fault(hw, FAKE_NVML_MEMORY, gpu) != NULL;
	*ret_bytes = fake_free_bytes(hw, gpu);
	fake_unlock(hw);
	return is_hidden ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetMemoryInfo", device, memory, &gpu);
	uint64_t left;

	if (result)
		return result;
	result = free_of(device, &left);
	if (result)
		return fake_nvml_leave(result);
	memory->total = gpu->total;
	memory->free = left;
	memory->used = gpu->total - left;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device,
					nvmlMemory_v2_t *memory)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetMemoryInfo_v2", device, memory, &gpu);
	uint64_t left;

	if (result)
		return result;
	if (memory->version != NVML_MEMORY_V2)
		return fake_nvml_leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	result = free_of(device, &left);
	if (result)
		return fake_nvml_leave(result);
	memory->total = gpu->total;
	memory->reserved = gpu->reserved;
	memory->free = left;
	memory->used = gpu->total - gpu->reserved - left;
	return fake_nvml_leave(NVML_SUCCESS);
}

/* Only where cards are NUMA nodes themselves, and none of these is. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetNumaNodeId", device, node, &gpu);

	return result ? result : fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int n,
					 unsigned long *nodes,
					 unsigned int scope)
{
	const unsigned int bits = 8 * sizeof(*nodes);
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetMemoryAffinity", device, nodes, &gpu);
	unsigned int node;

	if (result)
		return result;
	if (!n || scope > NVML_AFFINITY_SOCKET)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	if (gpu->numa_node < 0)
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	memset(nodes, 0, n * sizeof(*nodes));
	node = (unsigned int)gpu->numa_node;
	if (node / bits < n)
		nodes[node / bits] |= 1ul << node % bits;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
						int *minor)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetCudaComputeCapability", device,
		      major && minor ? major : NULL, &gpu);

	if (result)
		return result;
	*major = (int)gpu->cc_major;
	*minor = (int)gpu->cc_minor;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetComputeMode", device, mode, &gpu);

	if (result)
		return result;
	*mode = gpu->compute_mode;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device,
					  unsigned int *mode)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetPersistenceMode", device, mode, &gpu);

	if (result)
		return result;
	*mode = 1;
	return fake_nvml_leave(NVML_SUCCESS);
}

/* Cards that can neither be divided nor correct their memory. */
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
				  unsigned int *pending)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetMigMode", device, current, &gpu);

	return result ? result : fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current,
				  unsigned int *pending)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetEccMode", device, current, &gpu);

	return result ? result : fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor,
				      unsigned int *degrees)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetTemperature", device, degrees, &gpu);

	if (result)
		return result;
	if (sensor != NVML_TEMPERATURE_GPU)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	*degrees = 40 + gpu->nvml_index;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device,
				     unsigned int *milliwatts)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetPowerUsage", device, milliwatts, &gpu);

	if (result)
		return result;
	*milliwatts = 70000 + 1000 * gpu->nvml_index;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
					   nvmlUtilization_t *percent)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter("nvmlDeviceGetUtilizationRates", device, percent, &gpu);

	if (result)
		return result;
	*percent = (nvmlUtilization_t){ 0 };
	return fake_nvml_leave(NVML_SUCCESS);
}

/* Who has a context on the card; *n is the room, then how many there are. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
						     unsigned int *n,
						     nvmlProcessInfo_t *infos)
{
	struct fake_hardware *hw = &fake_nvml.hw;
	uint32_t card = fake_nvml_gpu(device);
	const struct fake_gpu *gpu;
	nvmlReturn_t result = enter("nvmlDeviceGetComputeRunningProcesses_v3",
				    device, n, &gpu);
	unsigned int found = 0;

	if (result)
		return result;
	fake_lock(hw);
	fake_sweep(hw);
	for (size_t i = 0; i < FAKE_PROCESSES; i++) {
		const struct fake_process *p = &hw->board->processes[i];

		if (!p->serial || p->is_nvml ||
		    !(p->holds & UINT32_C(1) << card))
			continue;
		if (infos && found < *n)
			infos[found] = (nvmlProcessInfo_t){
				.pid = (unsigned int)p->pid,
				.usedGpuMemory = p->used[card],
				.gpuInstanceId = UINT32_MAX,
				.computeInstanceId = UINT32_MAX,
			};
		found++;
	}
	fake_unlock(hw);
	if (found > *n)
		result = NVML_ERROR_INSUFFICIENT_SIZE;
	*n = found;
	return fake_nvml_leave(result);
}

/* Two cards of one call, which are two. */
static nvmlReturn_t enter_two(const char *name, nvmlDevice_t a, nvmlDevice_t b,
			      const void *answer, const struct fake_gpu **ret_a,
			      const struct fake_gpu **ret_b)
{
	nvmlReturn_t result = enter(name, a, answer, ret_a);

	if (result)
		return result;
	if (a == b || fake_nvml_gpu(b) >= fake_nvml.hw.board->n_gpus)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	*ret_b = &fake_nvml.hw.board->gpus[fake_nvml_gpu(b)];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b,
				    nvmlGpuP2PCapsIndex_t what,
				    nvmlGpuP2PStatus_t *status)
{
	const struct fake_gpu *one, *other;
	nvmlReturn_t result =
		enter_two("nvmlDeviceGetP2PStatus", a, b, status, &one, &other);

	if (result)
		return result;
	*status = one->is_integrated || other->is_integrated ||
				  what == NVML_P2P_CAPS_INDEX_NVLINK
			  ? NVML_P2P_STATUS_NOT_SUPPORTED
			  : NVML_P2P_STATUS_OK;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
						 nvmlGpuTopologyLevel_t *level)
{
	const struct fake_gpu *one, *other;
	nvmlReturn_t result = enter_two("nvmlDeviceGetTopologyCommonAncestor",
					a, b, level, &one, &other);

	if (result)
		return result;
	*level = one->numa_node == other->numa_node ? NVML_TOPOLOGY_NODE
						    : NVML_TOPOLOGY_SYSTEM;
	return fake_nvml_leave(NVML_SUCCESS);
}

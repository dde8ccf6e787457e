/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* NVML's facts of the system and of one card. */

#include <stdio.h>
#include <string.h>

#include "tests/fake/nvml.h"

#define DEFAULT_VERSION 13000

/* Enter a call about a card or an instance, with a place for its answer. */
static nvmlReturn_t enter_any(const char *name, nvmlDevice_t device,
			      const void *answer,
			      const struct fake_gpu **ret_gpu)
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
int fake_nvml_cuda_version(void)
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
	*version = fake_nvml_cuda_version();
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned int n)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlSystemGetDriverVersion");
	int version;
	char own[32];

	if (result)
		return result;
	version = fake_nvml_cuda_version();
	snprintf(own, sizeof(own), "%d.163.01",
		 version >= 13000 ? 580 : 530 + version % 1000 / 10 * 5);
	return fake_nvml_leave(answer_text(own, text, n));
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned int n)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		enter_any("nvmlDeviceGetName", device, text, &gpu);

	return result ? result
		      : fake_nvml_leave(answer_text(gpu->name, text, n));
}

FAKE_NVML_ANSWER(fake_nvml_enter_whole, nvmlDeviceGetIndex, unsigned int,
		 gpu->nvml_index)

FAKE_NVML_ANSWER(fake_nvml_enter_whole, nvmlDeviceGetMinorNumber, unsigned int,
		 gpu->minor)

void fake_nvml_pci(const struct fake_gpu *gpu, nvmlPciInfo_t *ret_pci)
{
	*ret_pci = (nvmlPciInfo_t){ .domain = gpu->domain,
				    .bus = gpu->bus,
				    .device = gpu->device,
				    .pciDeviceId = 0x233010de };
	snprintf(ret_pci->busId, sizeof(ret_pci->busId), "%08X:%02X:%02X.0",
		 gpu->domain, gpu->bus, gpu->device);
	snprintf(ret_pci->busIdLegacy, sizeof(ret_pci->busIdLegacy),
		 "%04X:%02X:%02X.0", gpu->domain & 0xffff, gpu->bus & 0xff,
		 gpu->device & 0xff);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = fake_nvml_enter_whole("nvmlDeviceGetPciInfo_v3",
						    device, pci, &gpu);

	if (result)
		return result;
	fake_nvml_pci(gpu, pci);
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
		enter_any("nvmlDeviceGetMemoryInfo", device, memory, &gpu);
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
		enter_any("nvmlDeviceGetMemoryInfo_v2", device, memory, &gpu);
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

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
						int *minor)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		fake_nvml_enter_whole("nvmlDeviceGetCudaComputeCapability",
				      device, major && minor ? major : NULL,
				      &gpu);

	if (result)
		return result;
	*major = (int)gpu->cc_major;
	*minor = (int)gpu->cc_minor;
	return fake_nvml_leave(NVML_SUCCESS);
}

FAKE_NVML_ANSWER(fake_nvml_enter_whole, nvmlDeviceGetComputeMode, unsigned int,
		 gpu->compute_mode)

FAKE_NVML_ANSWER(fake_nvml_enter_whole, nvmlDeviceGetPersistenceMode,
		 unsigned int, 1)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current,
				  unsigned int *pending)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		fake_nvml_enter_whole("nvmlDeviceGetEccMode", device,
				      current && pending ? current : NULL,
				      &gpu);

	if (result)
		return result;
	if (!gpu->has_ecc)
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	*current = *pending = 1;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor,
				      unsigned int *degrees)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = fake_nvml_enter_whole("nvmlDeviceGetTemperature",
						    device, degrees, &gpu);

	if (result)
		return result;
	if (sensor != NVML_TEMPERATURE_GPU)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	*degrees = 40 + gpu->nvml_index;
	return fake_nvml_leave(NVML_SUCCESS);
}

FAKE_NVML_ANSWER(fake_nvml_enter_whole, nvmlDeviceGetPowerUsage, unsigned int,
		 70000 + 1000 * gpu->nvml_index)

FAKE_NVML_ANSWER(fake_nvml_enter_whole, nvmlDeviceGetUtilizationRates,
		 nvmlUtilization_t, (nvmlUtilization_t){ 0 })

/* The processes that have a context on the card or one of its instances, from
 * @ret_info on. */
static unsigned int list_users(uint32_t gpu, unsigned int room,
			       nvmlProcessInfo_t *ret_infos)
{
	const struct fake_board *board = fake_nvml.hw.board;
	const struct fake_gpu *g = &board->gpus[gpu];
	unsigned int n = 0;

	for (size_t i = 0; i < FAKE_PROCESSES; i++) {
		const struct fake_process *p = &board->processes[i];

		if (!p->serial || p->is_nvml ||
		    !(p->holds & UINT32_C(1) << gpu))
			continue;
		if (n < room)
			ret_infos[n] = (nvmlProcessInfo_t){
				.pid = (unsigned int)p->pid,
				.usedGpuMemory = p->used[gpu],
				.gpuInstanceId =
					fake_is_part(g) ? g->gi : UINT32_MAX,
				.computeInstanceId =
					fake_is_part(g) ? g->ci : UINT32_MAX,
			};
		n++;
	}
	return n;
}

/* *n is the room, then how many there are. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
						     unsigned int *n,
						     nvmlProcessInfo_t *infos)
{
	struct fake_hardware *hw = &fake_nvml.hw;
	uint32_t card = fake_nvml_gpu(device);
	const struct fake_gpu *gpu;
	nvmlReturn_t result = enter_any(
		"nvmlDeviceGetComputeRunningProcesses_v3", device, n, &gpu);
	const struct fake_fault *fault;
	unsigned int found = 0, room;
	uint64_t untold;

	if (result)
		return result;
	fake_lock(hw);
	fault = fake_fault(hw, FAKE_NVML_PROCESSES, gpu->parent);
	untold = fault ? fault->value : 0;
	if (untold == FAKE_REFUSED) {
		fake_unlock(hw);
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	}
	fake_sweep(hw);
	for (uint32_t g = 0; g < hw->board->n_gpus; g++) {
		if (g != card && hw->board->gpus[g].parent != card)
			continue;
		room = infos && found < *n ? *n - found : 0;
		found += list_users(g, room, room ? infos + found : NULL);
	}
	fake_unlock(hw);
	for (unsigned int i = 0; infos && i < found && i < *n; i++) {
		if (untold == FAKE_NO_BYTES)
			infos[i].usedGpuMemory = NVML_VALUE_NOT_AVAILABLE;
		if (untold == FAKE_NO_PIDS)
			infos[i].pid = 0;
	}
	if (found > *n)
		result = NVML_ERROR_INSUFFICIENT_SIZE;
	*n = found;
	return fake_nvml_leave(result);
}

/* The one field there is, by drivers that have it. */
static nvmlReturn_t read_field(uint32_t gpu, nvmlFieldValue_t *field)
{
	const struct fake_fault *fault;

	if (field->fieldId != NVML_FI_DEV_GET_GPU_RECOVERY_ACTION ||
	    fake_nvml_cuda_version() < 12070)
		return NVML_ERROR_NOT_SUPPORTED;
	fake_lock(&fake_nvml.hw);
	fault = fake_fault(&fake_nvml.hw, FAKE_RECOVERY, gpu);
	field->value.ullVal = 0;
	field->value.uiVal = fault ? (unsigned int)fault->value : 0;
	fake_unlock(&fake_nvml.hw);
	field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	return NVML_SUCCESS;
}

/* Each field has a result of its own. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int n,
				      nvmlFieldValue_t *values)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = fake_nvml_enter_whole("nvmlDeviceGetFieldValues",
						    device, values, &gpu);

	if (result)
		return result;
	if (n <= 0)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	for (int i = 0; i < n; i++)
		values[i].nvmlReturn =
			read_field(fake_nvml_gpu(device), &values[i]);
	return fake_nvml_leave(NVML_SUCCESS);
}

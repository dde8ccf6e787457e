/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * MIG instances.  One has a handle of its own, which only the calls take that
 * an instance has an answer of its own to; the rest its card is asked.
 */

#include <stdlib.h>

#include "tests/fake/nvml.h"

#define PARTS_MAX 7

/* Cards that could be split are those that some row is an instance of, and
 * their like: from compute capability 8.0 on, with the memory for it. */
static bool can_split(const struct fake_gpu *gpu)
{
	return gpu->is_split ||
	       (gpu->cc_major >= 8 && gpu->has_ecc && gpu->cc_minor == 0);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
				  unsigned int *pending)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		fake_nvml_enter_whole("nvmlDeviceGetMigMode", device,
				      current && pending ? current : NULL,
				      &gpu);

	if (result)
		return result;
	if (!can_split(gpu))
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	*current = *pending = gpu->is_split;
	return fake_nvml_leave(NVML_SUCCESS);
}

FAKE_NVML_ANSWER(fake_nvml_enter_whole, nvmlDeviceGetMaxMigDeviceCount,
		 unsigned int, gpu->is_split ? PARTS_MAX : 0)

/* Not all places for instances are taken. */
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device,
						 unsigned int index,
						 nvmlDevice_t *part)
{
	const struct fake_gpu *gpu, *gpus;
	nvmlReturn_t result = fake_nvml_enter_whole(
		"nvmlDeviceGetMigDeviceHandleByIndex", device, part, &gpu);

	if (result)
		return result;
	if (!gpu->is_split)
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	if (index >= PARTS_MAX)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	gpus = fake_nvml.hw.board->gpus;
	for (uint32_t i = 0; i < fake_nvml.hw.board->n_gpus; i++) {
		if (!fake_is_part(&gpus[i]) || gpus[i].is_lost ||
		    gpus[i].parent != fake_nvml_gpu(device) ||
		    gpus[i].mig_index != index)
			continue;
		*part = fake_nvml_handle(i);
		return fake_nvml_leave(NVML_SUCCESS);
	}
	return fake_nvml_leave(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device,
					 unsigned int *is_part)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = fake_nvml_enter_card(
		"nvmlDeviceIsMigDeviceHandle", device, &gpu);

	if (result)
		return result;
	if (!is_part)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	*is_part = fake_is_part(gpu);
	return fake_nvml_leave(NVML_SUCCESS);
}

/* Enter a call about an instance. */
static nvmlReturn_t enter_part(const char *name, nvmlDevice_t device,
			       const void *answer,
			       const struct fake_gpu **ret_part)
{
	nvmlReturn_t result = fake_nvml_enter_card(name, device, ret_part);

	if (result)
		return result;
	if (!answer)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	return fake_is_part(*ret_part)
		       ? NVML_SUCCESS
		       : fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
}

FAKE_NVML_ANSWER(enter_part, nvmlDeviceGetDeviceHandleFromMigDeviceHandle,
		 nvmlDevice_t, fake_nvml_handle(gpu->parent))

FAKE_NVML_ANSWER(enter_part, nvmlDeviceGetGpuInstanceId, unsigned int, gpu->gi)

FAKE_NVML_ANSWER(enter_part, nvmlDeviceGetComputeInstanceId, unsigned int,
		 gpu->ci)

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device,
					nvmlDeviceAttributes_t *attributes)
{
	const struct fake_gpu *part;
	nvmlReturn_t result = enter_part("nvmlDeviceGetAttributes_v2", device,
					 attributes, &part);
	unsigned int slices;

	if (result)
		return result;
	slices = (unsigned int)strtoul(part->profile, NULL, 10);
	*attributes = (nvmlDeviceAttributes_t){
		.multiprocessorCount = part->sms,
		.sharedCopyEngineCount = slices,
		.gpuInstanceSliceCount = slices,
		.computeInstanceSliceCount = slices,
		.memorySizeMB = part->total >> 20,
	};
	return fake_nvml_leave(NVML_SUCCESS);
}

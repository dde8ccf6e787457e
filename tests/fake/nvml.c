/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Beginning and end, and how cards are found. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake/nvml.h"

#define FIRST_HANDLE 0x1000u

struct fake_nvml fake_nvml;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

nvmlReturn_t fake_nvml_leave(nvmlReturn_t result)
{
	pthread_mutex_unlock(&mutex);
	return result;
}

nvmlReturn_t fake_nvml_enter(const char *name)
{
	bool is_missing;

	pthread_mutex_lock(&mutex);
	if (!fake_nvml.inits)
		return fake_nvml_leave(NVML_ERROR_UNINITIALIZED);
	fake_lock(&fake_nvml.hw);
	is_missing = fake_is_missing(&fake_nvml.hw, name);
	fake_unlock(&fake_nvml.hw);
	return is_missing ? fake_nvml_leave(NVML_ERROR_FUNCTION_NOT_FOUND)
			  : NVML_SUCCESS;
}

nvmlDevice_t fake_nvml_handle(uint32_t gpu)
{
	return (nvmlDevice_t)(uintptr_t)(FIRST_HANDLE + gpu);
}

uint32_t fake_nvml_gpu(nvmlDevice_t device)
{
	return (uint32_t)((uintptr_t)device - FIRST_HANDLE);
}

static void rest(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000),
			       .tv_nsec = (long)(ns % 1000000000) };

	while (ns && nanosleep(&ts, &ts))
		;
}

/* A card's answer today, and the time that it takes.  An instance answers as
 * its card does. */
static nvmlReturn_t ask(uint32_t gpu, uint64_t *ret_ns)
{
	struct fake_hardware *hw = &fake_nvml.hw;
	uint32_t card = hw->board->gpus[gpu].parent;
	const struct fake_fault *slow;
	bool is_lost;

	fake_lock(hw);
	slow = fake_fault(hw, FAKE_NVML_SLOW, card);
	*ret_ns = slow ? slow->value : 0;
	is_lost = hw->board->gpus[gpu].is_lost ||
		  fake_fault(hw, FAKE_NVML_LOST, card);
	fake_unlock(hw);
	return is_lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t fake_nvml_enter_card(const char *name, nvmlDevice_t device,
				  const struct fake_gpu **ret_gpu)
{
	nvmlReturn_t result = fake_nvml_enter(name);
	uint32_t gpu = fake_nvml_gpu(device);
	uint64_t ns;

	if (result)
		return result;
	if (gpu >= fake_nvml.hw.board->n_gpus)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	result = ask(gpu, &ns);
	if (ns) {
		/* A slow card delays only those that ask about it. */
		pthread_mutex_unlock(&mutex);
		rest(ns);
		pthread_mutex_lock(&mutex);
		if (!fake_nvml.inits)
			result = NVML_ERROR_UNINITIALIZED;
	}
	*ret_gpu = &fake_nvml.hw.board->gpus[gpu];
	return result ? fake_nvml_leave(result) : NVML_SUCCESS;
}

nvmlReturn_t fake_nvml_enter_whole(const char *name, nvmlDevice_t device,
				   const void *answer,
				   const struct fake_gpu **ret_gpu)
{
	nvmlReturn_t result = fake_nvml_enter_card(name, device, ret_gpu);

	if (result)
		return result;
	if (fake_is_part(*ret_gpu))
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	return answer ? NVML_SUCCESS
		      : fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlInit_v2(void)
{
	pthread_mutex_lock(&mutex);
	if (!fake_nvml.inits) {
		if (fake_hardware_join(true, &fake_nvml.hw))
			return fake_nvml_leave(NVML_ERROR_DRIVER_NOT_LOADED);
		for (int i = 0; i < FAKE_GPUS; i++)
			fake_nvml.nodes[i] = -1;
	}
	fake_nvml.inits++;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlShutdown");

	/* The real one has no objection, whatever its pages say. */
	if (result == NVML_ERROR_UNINITIALIZED)
		return NVML_SUCCESS;
	if (result)
		return result;
	if (--fake_nvml.inits)
		return fake_nvml_leave(NVML_SUCCESS);
	for (int i = 0; i < FAKE_GPUS; i++)
		if (fake_nvml.nodes[i] >= 0)
			close(fake_nvml.nodes[i]);
	fake_hardware_leave(&fake_nvml.hw);
	return fake_nvml_leave(NVML_SUCCESS);
}

/* A handle wakes the card, and holds its device node from then on. */
static nvmlReturn_t hold(uint32_t gpu, nvmlDevice_t *ret_device)
{
	struct fake_hardware *hw = &fake_nvml.hw;
	const struct fake_board *board = hw->board;
	uint32_t card = board->gpus[gpu].parent;
	char path[FAKE_NODE_BYTES];
	uint64_t ns;
	nvmlReturn_t result = ask(gpu, &ns);

	if (ns) {
		pthread_mutex_unlock(&mutex);
		rest(ns);
		pthread_mutex_lock(&mutex);
	}
	if (result || !fake_nvml.inits)
		return result ? result : NVML_ERROR_UNINITIALIZED;
	fake_lock(hw);
	hw->self->holds |= UINT32_C(1) << card;
	fake_unlock(hw);
	if (board->dev[0] && fake_nvml.nodes[card] < 0) {
		fake_node(board->dev, &board->gpus[card], 0, path);
		fake_nvml.nodes[card] = open(path, O_RDWR | O_CLOEXEC);
		if (fake_nvml.nodes[card] < 0)
			return NVML_ERROR_NO_PERMISSION;
	}
	*ret_device = fake_nvml_handle(gpu);
	return NVML_SUCCESS;
}

static unsigned int count_cards(void)
{
	const struct fake_board *board = fake_nvml.hw.board;
	unsigned int n = 0;

	for (uint32_t gpu = 0; gpu < board->n_gpus; gpu++)
		n += !fake_is_part(&board->gpus[gpu]);
	return n;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlDeviceGetCount_v2");

	if (result)
		return result;
	if (!n)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	*n = count_cards();
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index,
					   nvmlDevice_t *device)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlDeviceGetHandleByIndex_v2");
	const struct fake_board *board;

	if (result)
		return result;
	board = fake_nvml.hw.board;
	if (!device || index >= count_cards())
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	for (uint32_t gpu = 0; gpu < board->n_gpus; gpu++)
		if (board->gpus[gpu].nvml_index == index &&
		    !fake_is_part(&board->gpus[gpu]))
			return fake_nvml_leave(hold(gpu, device));
	return fake_nvml_leave(NVML_ERROR_UNKNOWN);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlDeviceGetHandleByUUID");
	const struct fake_board *board;
	char text[FAKE_UUID_TEXT];

	if (result)
		return result;
	board = fake_nvml.hw.board;
	if (!uuid || !device)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	for (uint32_t gpu = 0; gpu < board->n_gpus; gpu++) {
		fake_uuid_print(&board->gpus[gpu], text);
		if (strcasecmp(text, uuid) == 0)
			return fake_nvml_leave(hold(gpu, device));
	}
	return fake_nvml_leave(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id,
					      nvmlDevice_t *device)
{
	nvmlReturn_t result =
		fake_nvml_enter("nvmlDeviceGetHandleByPciBusId_v2");
	unsigned int domain, bus, slot;
	const struct fake_board *board;

	if (result)
		return result;
	board = fake_nvml.hw.board;
	if (!id || !device || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	for (uint32_t gpu = 0; gpu < board->n_gpus; gpu++)
		if (!fake_is_part(&board->gpus[gpu]) &&
		    board->gpus[gpu].domain == domain &&
		    board->gpus[gpu].bus == bus &&
		    board->gpus[gpu].device == slot)
			return fake_nvml_leave(hold(gpu, device));
	return fake_nvml_leave(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int n)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result =
		fake_nvml_enter_card("nvmlDeviceGetUUID", device, &gpu);
	char uuid[FAKE_UUID_TEXT];

	if (result)
		return result;
	if (!text)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	fake_uuid_print(gpu, uuid);
	if (n <= strlen(uuid))
		return fake_nvml_leave(NVML_ERROR_INSUFFICIENT_SIZE);
	memcpy(text, uuid, strlen(uuid) + 1);
	return fake_nvml_leave(NVML_SUCCESS);
}

const char *nvmlErrorString(nvmlReturn_t error)
{
	static const struct {
		nvmlReturn_t error;
		const char *text;
	} texts[] = {
		{ NVML_SUCCESS, "success" },
		{ NVML_ERROR_UNINITIALIZED, "no nvmlInit" },
		{ NVML_ERROR_INVALID_ARGUMENT, "invalid argument" },
		{ NVML_ERROR_NOT_SUPPORTED, "not supported" },
		{ NVML_ERROR_NO_PERMISSION, "no permission" },
		{ NVML_ERROR_NOT_FOUND, "not found" },
		{ NVML_ERROR_INSUFFICIENT_SIZE, "insufficient size" },
		{ NVML_ERROR_DRIVER_NOT_LOADED, "driver not loaded" },
		{ NVML_ERROR_TIMEOUT, "timeout" },
		{ NVML_ERROR_FUNCTION_NOT_FOUND, "function not found" },
		{ NVML_ERROR_GPU_IS_LOST, "GPU is lost" },
		{ NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "version mismatch" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].error == error)
			return texts[i].text;
	return "unknown error";
}

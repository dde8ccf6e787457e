/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Sets of events.  A set hears of what comes after it was told to listen. */

#include <stdlib.h>
#include <time.h>

#include "tests/fake/nvml.h"

#define LOOK_NS 2000000

struct nvmlEventSet_st {
	struct nvmlEventSet_st *next;
	uint64_t heard; /* Xids of the machine, of those before it listened */
	unsigned long long types[FAKE_GPUS]; /* of each card */
};

static struct nvmlEventSet_st *sets;

static bool is_set(nvmlEventSet_t set)
{
	for (struct nvmlEventSet_st *s = sets; s; s = s->next)
		if (s == set)
			return true;
	return false;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlEventSetCreate");
	struct nvmlEventSet_st *s;

	if (result)
		return result;
	if (!set)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	s = calloc(1, sizeof(*s));
	if (!s)
		return fake_nvml_leave(NVML_ERROR_UNKNOWN);
	fake_lock(&fake_nvml.hw);
	s->heard = fake_nvml.hw.board->n_xids;
	fake_unlock(&fake_nvml.hw);
	s->next = sets;
	sets = s;
	*set = s;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	nvmlReturn_t result = fake_nvml_enter("nvmlEventSetFree");
	struct nvmlEventSet_st **at = &sets;

	if (result)
		return result;
	while (*at && *at != set)
		at = &(*at)->next;
	if (!*at)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	*at = set->next;
	free(set);
	return fake_nvml_leave(NVML_SUCCESS);
}

static unsigned long long types_of(const struct fake_gpu *gpu)
{
	return NVML_EVENT_XID | (gpu->has_ecc ? NVML_EVENT_DBE : 0);
}

FAKE_NVML_ANSWER(fake_nvml_enter_whole, nvmlDeviceGetSupportedEventTypes,
		 unsigned long long, types_of(gpu))

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device,
				      unsigned long long types,
				      nvmlEventSet_t set)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = fake_nvml_enter_whole("nvmlDeviceRegisterEvents",
						    device, set, &gpu);

	if (result)
		return result;
	if (!is_set(set) || !types)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	if (types & ~types_of(gpu))
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	set->types[fake_nvml_gpu(device)] |= types;
	return fake_nvml_leave(NVML_SUCCESS);
}

static unsigned long long type_of(const struct fake_xid *xid)
{
	return xid->number ? NVML_EVENT_XID : NVML_EVENT_DBE;
}

/* The card reports an instance's fault, and says which instance it was. */
static void tell(const struct fake_xid *xid, nvmlEventData_t *ret_data)
{
	const struct fake_gpu *gpu = &fake_nvml.hw.board->gpus[xid->gpu];

	*ret_data = (nvmlEventData_t){
		.device = fake_nvml_handle(gpu->parent),
		.eventType = type_of(xid),
		.eventData = xid->number,
		.gpuInstanceId = fake_is_part(gpu) ? gpu->gi : UINT32_MAX,
		.computeInstanceId = fake_is_part(gpu) ? gpu->ci : UINT32_MAX,
	};
}

/* The next event that @set has not heard of. */
static bool next_xid(nvmlEventSet_t set, nvmlEventData_t *data)
{
	const struct fake_board *board = fake_nvml.hw.board;
	const struct fake_gpu *gpus = board->gpus;
	bool is_found = false;

	fake_lock(&fake_nvml.hw);
	if (board->n_xids - set->heard > FAKE_XIDS)
		set->heard = board->n_xids - FAKE_XIDS;
	while (!is_found && set->heard < board->n_xids) {
		const struct fake_xid *xid =
			&board->xids[set->heard++ % FAKE_XIDS];

		if (set->types[gpus[xid->gpu].parent] & type_of(xid)) {
			tell(xid, data);
			is_found = true;
		}
	}
	fake_unlock(&fake_nvml.hw);
	return is_found;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
				 unsigned int timeout_ms)
{
	uint64_t until =
		fake_now_ns() + (uint64_t)timeout_ms * UINT64_C(1000000);

	for (;;) {
		nvmlReturn_t result = fake_nvml_enter("nvmlEventSetWait_v2");
		bool is_broken;

		if (result)
			return result;
		if (!data || !is_set(set))
			return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
		fake_lock(&fake_nvml.hw);
		is_broken = fake_fault(&fake_nvml.hw, FAKE_NVML_WAIT,
				       FAKE_ANY_GPU) != NULL;
		fake_unlock(&fake_nvml.hw);
		if (is_broken)
			return fake_nvml_leave(NVML_ERROR_UNKNOWN);
		if (next_xid(set, data))
			return fake_nvml_leave(NVML_SUCCESS);
		fake_nvml_leave(NVML_SUCCESS);
		if (fake_now_ns() >= until)
			return NVML_ERROR_TIMEOUT;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
}

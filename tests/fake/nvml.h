/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* nvml - what one process knows of the stand-in for NVML. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <pthread.h>

#include "tests/fake/hardware.h"
#include "tests/support/nvml_abi.h"

struct fake_nvml {
	struct fake_hardware hw;
	unsigned int inits;   /* nvmlInit, less nvmlShutdown */
	int nodes[FAKE_GPUS]; /* device nodes, open from a card's first handle
			       * to the last shutdown; -1 */
};

extern struct fake_nvml fake_nvml;

/*
 * Take the lock, for a call of a name.  An error: there was no nvmlInit, or
 * this NVML is one that has not this call.
 */
nvmlReturn_t fake_nvml_enter(const char *name);

/* The same for a call about a card, which takes as long as the plan says. */
nvmlReturn_t fake_nvml_enter_card(const char *name, nvmlDevice_t device,
				  const struct fake_gpu **ret_gpu);

/* The same for a call that is about cards alone, not their instances; with
 * @answer, the place for one. */
nvmlReturn_t fake_nvml_enter_whole(const char *name, nvmlDevice_t device,
				   const void *answer,
				   const struct fake_gpu **ret_gpu);

/* Give the lock back.  Returns @result. */
nvmlReturn_t fake_nvml_leave(nvmlReturn_t result);

/* A call that answers one thing of a card or a part, @gpu: @value. */
#define FAKE_NVML_ANSWER(enter, call, type, value)                        \
	nvmlReturn_t call(nvmlDevice_t device, type *answer)              \
	{                                                                 \
		const struct fake_gpu *gpu;                               \
		nvmlReturn_t result = enter(#call, device, answer, &gpu); \
                                                                          \
		if (result)                                               \
			return result;                                    \
		*answer = value;                                          \
		return fake_nvml_leave(NVML_SUCCESS);                     \
	}

/* The result of nvmlDeviceGetPciInfo; under the lock. */
void fake_nvml_pci(const struct fake_gpu *gpu, nvmlPciInfo_t *ret_pci);

/* The driver's version by the plan; under the lock. */
int fake_nvml_cuda_version(void);

nvmlDevice_t fake_nvml_handle(uint32_t gpu);
uint32_t fake_nvml_gpu(nvmlDevice_t device);

#endif

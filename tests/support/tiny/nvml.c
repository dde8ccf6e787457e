/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * NVML's names, and nothing behind them, for unit/cuda/nvml.c: of the facts and
 * of MIG only one each, or, with TINY_BARE, not even all that is needed.
 */

#include "agent/cuda/nvml.h"

#define EXPORT __attribute__((visibility("default")))

/* Every function there is, and what each returns. */
#define GIVE(name, arguments, result)         \
	EXPORT gm_nvml_result name arguments; \
	EXPORT gm_nvml_result name arguments  \
	{                                     \
		return result;                \
	}

#define SYMBOL(group, name, arguments) GIVE_##group(name, arguments)
#ifdef TINY_BARE
#define GIVE_CORE(name, arguments)
#define GIVE_EVENTS(name, arguments)
GIVE(nvmlInit_v2, (void), GM_NVML_SUCCESS)
#else
#define GIVE_CORE(name, arguments)   GIVE(name, arguments, GM_NVML_NOT_READY)
#define GIVE_EVENTS(name, arguments) GIVE(name, arguments, GM_NVML_TIMEOUT)
GIVE(nvmlDeviceGetEccMode,
     (struct nvmlDevice_st * dev, unsigned int *ret_current,
      unsigned int *ret_pending),
     GM_NVML_NO_DATA)
GIVE(nvmlDeviceGetMigMode,
     (struct nvmlDevice_st * dev, unsigned int *ret_current,
      unsigned int *ret_pending),
     GM_NVML_NO_DATA)
#endif
#define GIVE_FACT(name, arguments)
#define GIVE_MIG(name, arguments)
#include "agent/cuda/nvml_symbols.h"

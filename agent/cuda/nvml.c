/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/cuda/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Stands in for a function that is not there: see nvml.h. */
#define SYMBOL(group, name, arguments)              \
	static gm_nvml_result lack_##name arguments \
	{                                           \
		return GM_NVML_FUNCTION_NOT_FOUND;  \
	}
#include "agent/cuda/nvml_symbols.h"

#define SYMBOL(group, name, arguments) .name = lack_##name,
static const struct gm_nvml nothing = {
#include "agent/cuda/nvml_symbols.h"
};

static const struct symbol {
	const char *name;
	uint32_t group;  /* enum gm_nvml_group */
	uint32_t offset; /* in struct gm_nvml */
} symbols[] = {
#define SYMBOL(group, name, arguments) \
	{ #name, GM_NVML_##group, offsetof(struct gm_nvml, name) },
#include "agent/cuda/nvml_symbols.h"
};

static void set_function(struct gm_nvml *nvml, const struct symbol *symbol,
			 const void *fn)
{
	memcpy((char *)nvml + symbol->offset, fn, sizeof(void *));
}

static void find_functions(struct gm_nvml *nvml)
{
	nvml->has = (UINT32_C(1) << GM_NVML_GROUPS) - 1;
	for (size_t i = 0; i < N_OF(symbols); i++) {
		void *fn = dlsym(nvml->library.handle, symbols[i].name);

		if (fn) {
			set_function(nvml, &symbols[i], &fn);
			continue;
		}
		nvml->has &= ~(UINT32_C(1) << symbols[i].group);
		if (nvml->n_missing++ == 0)
			nvml->first_missing = symbols[i].name;
	}
}

/* Facts lack one by one, what else belongs together does not. */
static void drop_torn_groups(struct gm_nvml *nvml)
{
	for (size_t i = 0; i < N_OF(symbols); i++) {
		uint32_t group = symbols[i].group;

		if (group != GM_NVML_FACT && !gm_nvml_has(nvml, group))
			set_function(nvml, &symbols[i],
				     (const char *)&nothing +
					     symbols[i].offset);
	}
}

int gm_nvml_open(const struct gm_library_where *where, struct gm_nvml *ret_nvml,
		 char *ret_why)
{
	static const struct gm_library_where usual = {
		.soname = "libnvidia-ml.so.1",
	};
	struct gm_nvml nvml = nothing;
	int rc =
		gm_library_open(where ? where : &usual, &nvml.library, ret_why);

	if (rc < 0)
		return rc;
	find_functions(&nvml);
	drop_torn_groups(&nvml);
	if (!gm_nvml_has(&nvml, GM_NVML_CORE)) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
			 "%s lacks %s: it is no NVML, or one older than driver "
			 "525",
			 nvml.library.path, nvml.first_missing);
		return -ELIBBAD;
	}
	*ret_nvml = nvml;
	return 0;
}

static const char *const names[] = {
	[GM_NVML_SUCCESS] = "SUCCESS",
	[GM_NVML_UNINITIALIZED] = "UNINITIALIZED",
	[GM_NVML_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
	[GM_NVML_NOT_SUPPORTED] = "NOT_SUPPORTED",
	[GM_NVML_NO_PERMISSION] = "NO_PERMISSION",
	[GM_NVML_ALREADY_INITIALIZED] = "ALREADY_INITIALIZED",
	[GM_NVML_NOT_FOUND] = "NOT_FOUND",
	[GM_NVML_INSUFFICIENT_SIZE] = "INSUFFICIENT_SIZE",
	[GM_NVML_INSUFFICIENT_POWER] = "INSUFFICIENT_POWER",
	[GM_NVML_DRIVER_NOT_LOADED] = "DRIVER_NOT_LOADED",
	[GM_NVML_TIMEOUT] = "TIMEOUT",
	[GM_NVML_IRQ_ISSUE] = "IRQ_ISSUE",
	[GM_NVML_LIBRARY_NOT_FOUND] = "LIBRARY_NOT_FOUND",
	[GM_NVML_FUNCTION_NOT_FOUND] = "FUNCTION_NOT_FOUND",
	[GM_NVML_CORRUPTED_INFOROM] = "CORRUPTED_INFOROM",
	[GM_NVML_GPU_IS_LOST] = "GPU_IS_LOST",
	[GM_NVML_RESET_REQUIRED] = "RESET_REQUIRED",
	[GM_NVML_OPERATING_SYSTEM] = "OPERATING_SYSTEM",
	[GM_NVML_LIB_RM_VERSION_MISMATCH] = "LIB_RM_VERSION_MISMATCH",
	[GM_NVML_IN_USE] = "IN_USE",
	[GM_NVML_MEMORY] = "MEMORY",
	[GM_NVML_NO_DATA] = "NO_DATA",
	[GM_NVML_VGPU_ECC_NOT_SUPPORTED] = "VGPU_ECC_NOT_SUPPORTED",
	[GM_NVML_INSUFFICIENT_RESOURCES] = "INSUFFICIENT_RESOURCES",
	[GM_NVML_FREQ_NOT_SUPPORTED] = "FREQ_NOT_SUPPORTED",
	[GM_NVML_ARGUMENT_VERSION_MISMATCH] = "ARGUMENT_VERSION_MISMATCH",
	[GM_NVML_DEPRECATED] = "DEPRECATED",
	[GM_NVML_NOT_READY] = "NOT_READY",
	[GM_NVML_GPU_NOT_FOUND] = "GPU_NOT_FOUND",
	[GM_NVML_INVALID_STATE] = "INVALID_STATE",
};

const char *gm_nvml_error_name(gm_nvml_result result)
{
	if (result == GM_NVML_UNKNOWN)
		return "UNKNOWN";
	return result < N_OF(names) ? names[result] : "unknown error";
}

const char *gm_nvml_error_remedy(gm_nvml_result result)
{
	switch (result) {
	case GM_NVML_NO_PERMISSION:
		return "this user may not open the card's /dev/nvidia* node";
	case GM_NVML_DRIVER_NOT_LOADED:
		return "the kernel has no nvidia module: modprobe nvidia, and "
		       "see dmesg";
	case GM_NVML_GPU_IS_LOST:
		return "the card fell off the bus: see dmesg for Xid 79, then "
		       "reboot";
	case GM_NVML_RESET_REQUIRED:
		return "drain the row, then nvidia-smi --gpu-reset -i its id";
	case GM_NVML_LIB_RM_VERSION_MISMATCH:
		return "the driver was upgraded under its running module: "
		       "reboot";
	case GM_NVML_CORRUPTED_INFOROM:
		return "the card's own memory of itself is damaged: have it "
		       "replaced";
	default:
		return NULL;
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/nvml_session.h"

#include <errno.h>

uint32_t gm_nvml_session_health(gm_nvml_result result)
{
	switch (result) {
	case GM_NVML_SUCCESS:
	/* A fact that this card or this driver does not have. */
	case GM_NVML_NOT_SUPPORTED:
	case GM_NVML_NO_PERMISSION:
	case GM_NVML_NO_DATA:
	case GM_NVML_FUNCTION_NOT_FOUND:
	case GM_NVML_ARGUMENT_VERSION_MISMATCH:
	case GM_NVML_DEPRECATED:
	case GM_NVML_NOT_READY:
		return GM_PROBE_USABLE;
	case GM_NVML_GPU_IS_LOST:
	case GM_NVML_GPU_NOT_FOUND:
		return GM_PROBE_LOST;
	default:
		return GM_PROBE_FAILED;
	}
}

void gm_nvml_session_refused(struct gm_probe_wire *note, const char *call,
			     gm_nvml_result result)
{
	const char *remedy = gm_nvml_error_remedy(result);

	note->health = gm_nvml_session_health(result);
	if (note->health == GM_PROBE_USABLE)
		note->health = GM_PROBE_FAILED;
	note->code = (int32_t)result;
	gm_say_text(note, "NVML %u %s from %s%s%s", result,
		    gm_nvml_error_name(result), call, remedy ? ": " : "",
		    remedy ? remedy : "");
}

int gm_nvml_session_open(const struct gm_probe_options *options,
			 struct gm_nvml *ret_nvml, struct gm_probe_wire *note)
{
	const struct gm_library_where where = { .soname = "libnvidia-ml.so.1",
						.compat = options->library };
	char why[GM_LIBRARY_WHY_BYTES];
	gm_nvml_result result;
	int rc = gm_nvml_open(&where, ret_nvml, why);

	if (rc < 0) {
		note->health = GM_PROBE_FAILED;
		gm_say_text(note, "%.150s", why);
		return rc == -ENOENT ? -ENOENT : -EIO;
	}
	gm_say_call("nvmlInit");
	result = ret_nvml->nvmlInit_v2();
	if (result == GM_NVML_SUCCESS)
		return 0;
	gm_nvml_session_refused(note, "nvmlInit", result);
	return result == GM_NVML_DRIVER_NOT_LOADED ? -ENODEV : -EIO;
}

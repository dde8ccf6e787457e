/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/device_kinds.h"

#include "gpumap.h"

static const struct gm_device_kind kinds[GM_DEVICE_KINDS] = {
	[0] = { "unknown", 0 },
	[GPUMAP_DEVICE_HOST] = { "host", GPUMAP_DEVICE_SERVES |
						 GPUMAP_DEVICE_MAPPED |
						 GPUMAP_DEVICE_EXPORTS |
						 GPUMAP_DEVICE_MAIN_MEMORY },
	[GPUMAP_DEVICE_CUDA] = { "cuda", GPUMAP_DEVICE_SERVES |
						 GPUMAP_DEVICE_CARD |
						 GPUMAP_DEVICE_EXPORTS |
						 GPUMAP_DEVICE_CLIQUES },
	[GPUMAP_DEVICE_DUMMY] = { "dummy", 0 },
	[GPUMAP_DEVICE_OPENCL] = { "opencl",
				   GPUMAP_DEVICE_SERVES | GPUMAP_DEVICE_CARD },
	[GPUMAP_DEVICE_VULKAN] = { "vulkan",
				   GPUMAP_DEVICE_SERVES | GPUMAP_DEVICE_CARD },
	[GPUMAP_DEVICE_HIP] = { "hip", GPUMAP_DEVICE_SERVES |
					       GPUMAP_DEVICE_CARD |
					       GPUMAP_DEVICE_CLIQUES },
};

const struct gm_device_kind *gm_device_kind(uint32_t kind)
{
	return &kinds[kind < GM_DEVICE_KINDS ? kind : 0];
}

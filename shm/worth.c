/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/worth.h"

#include "gpumap.h"

#define WIN 0.95 /* of the host's time */

uint64_t gm_worth_default(uint32_t work)
{
	switch (work) {
	case GPUMAP_WORK_GEMM:
	case GPUMAP_WORK_XTWX:
		return 100000000;
	case GPUMAP_WORK_POTRF:
		return 512;
	default:
		return 50000;
	}
}

uint64_t gm_worth_least(const uint64_t *sizes, const uint64_t *host_ns,
			const uint64_t *device_ns, uint32_t n,
			uint64_t otherwise)
{
	uint64_t beyond = 2 * sizes[n - 1];

	for (uint32_t i = 0; i < n; i++)
		if ((double)device_ns[i] <= WIN * (double)host_ns[i])
			return sizes[i];
	return beyond > otherwise ? beyond : otherwise;
}

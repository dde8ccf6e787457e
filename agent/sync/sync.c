/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/sync.h"

#include <time.h>

uint64_t gm_sync_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

bool gm_sync_agent_answers(const struct gm_sync *sync)
{
	struct gpumap_health health = { .size = sizeof(health) };

	return sync->map != NULL && gpumap_health(sync->map, &health) == 0 &&
	       health.stale == 0 && health.state == GPUMAP_READY;
}

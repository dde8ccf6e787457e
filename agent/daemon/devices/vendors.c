/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/vendors.h"

#include "agent/daemon/base/events.h"
#include "agent/daemon/devices/rows.h"
#include "gpumap.h"
#include "shm/score.h"

void gm_vendors_refresh(const struct gm_daemon *d, struct gm_device *device)
{
	const struct gm_row_image *facts = &device->facts;
	struct gm_moving_image *moving = &device->moving;
	bool is_main = (facts->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0;
	uint64_t used = gm_events_row_used_bytes(d, facts->row);
	uint64_t total, available;

	moving->known |= GPUMAP_KNOWN_MEMORY;
	moving->free_bytes =
		facts->total_bytes > used ? facts->total_bytes - used : 0;
	if (is_main &&
	    gm_meminfo_read(&device->memory, &total, &available) == 0 &&
	    moving->free_bytes > available)
		moving->free_bytes = available;
	moving->budget_bytes =
		gm_budget(moving->free_bytes, facts->total_bytes);
	moving->score = gm_score((int32_t)facts->units,
				 is_main ? 0 : moving->free_bytes, 0);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/replica_private.h"

void gm_mask_devices_notify(struct gm_daemon *d)
{
	gm_timer_set(d->loop, &d->mask_devices->news, gm_loop_now());
}

struct gm_mask_device *gm_mask_devices_find(const struct gm_daemon *d,
					    uint64_t id)
{
	struct gm_mask_device *device;

	TAILQ_FOREACH(device, &d->mask_devices->all, entry)
	{
		if (device->id == id)
			break;
	}
	return device;
}

bool gm_mask_device_is_charged(const struct gm_mask_device *device)
{
	return device->state != GM_MASK_FAILED || device->is_imported;
}

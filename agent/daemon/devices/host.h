/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host - the host rows that this machine should have: one per NUMA node
 * with CPUs and memory, each split as the configuration says.
 */
#ifndef GM_DAEMON_DEVICES_HOST_H
#define GM_DAEMON_DEVICES_HOST_H

#include "agent/daemon/devices/rows.h"

/*
 * gm_hostrows_list - their static facts, all but the row
 *
 * max		room in ret_devices
 * ret_why	what is wrong and what to do
 *
 * Returns	how many, also 0 when they are switched off
 *		-ENOSPC		more than @max
 *		-EINVAL		host.cpus leaves nothing
 *		-ENOMEM, and what reading sysfs returns
 */
int gm_hostrows_list(const struct gm_daemon *d, struct gm_device *ret_devices,
		     size_t max, char ret_why[GM_WHY_BYTES]);

/* Read what moves: free bytes, budget, score. */
void gm_hostrows_refresh(const struct gm_daemon *d, struct gm_device *device);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* cards - rows of cards, from what probes have named. */
#ifndef GM_DAEMON_DEVICES_CARDS_H
#define GM_DAEMON_DEVICES_CARDS_H

#include <stddef.h>
#include "agent/common/refusal.h"
#include "agent/daemon/devices/rows.h"

struct gm_daemon;

/*
 * gm_cards_list - the devices that were named so far
 *
 * max		room in ret_devices
 *
 * Returns	how many
 *		-ENOSPC		more than @max
 *		-ENODEV		none, and the configuration requires one
 */
int gm_cards_list(struct gm_daemon *d, struct gm_device *ret_devices,
		  size_t max, char ret_why[GM_WHY_BYTES]);

/* Budget and score, from what is free, or where no probe tells that, from an
 * estimate. */
void gm_cards_refresh(const struct gm_daemon *d, struct gm_device *device);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * dummy - rows for the devices of a node file, that are not there: they
 * are planned with and accounted for, and hold no data.
 *
 * Their facts are what the file says and nothing of them moves but what is
 * promised.  A row that the file calls a host is a dummy too, with the flag
 * GPUMAP_DEVICE_MAIN_MEMORY.
 */
#ifndef GM_DAEMON_DEVICES_DUMMY_H
#define GM_DAEMON_DEVICES_DUMMY_H

#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"

/*
 * gm_dummyrows_read - read the node file of the configuration, if it names one
 *
 * ret_why	"file:line: what is wrong; what to do"
 *
 * Returns	0, with @d->dummies set
 *		-EINVAL		it is no node file
 *		-ENOMEM, and what open and read return
 */
int gm_dummyrows_read(struct gm_daemon *d, char ret_why[GM_CONFIG_WHY_BYTES]);

/*
 * gm_dummyrows_list - their static facts, all but the row
 *
 * max		room in ret_devices
 *
 * Returns	how many
 *		-EINVAL		more than @max
 */
int gm_dummyrows_list(const struct gm_daemon *d, struct gm_device *ret_devices,
		      size_t max, char ret_why[GM_WHY_BYTES]);

/* Free bytes, budget and score, as the file has them. */
void gm_dummyrows_refresh(struct gm_device *device);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* vendors - rows of HIP's, OpenCL's and Vulkan's devices, which
 * health/vendors.h finds. */
#ifndef GM_DAEMON_DEVICES_VENDORS_H
#define GM_DAEMON_DEVICES_VENDORS_H

struct gm_daemon;
struct gm_device;

/* The free bytes, which are the whole less what sessions have, or less what the
 * kernel says is in use on a card of HIP, where that is more; with them budget
 * and score. */
void gm_vendors_refresh(const struct gm_daemon *d, struct gm_device *device);

#endif

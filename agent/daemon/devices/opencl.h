/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* opencl - rows of OpenCL's devices, which health/opencl.h finds. */
#ifndef GM_DAEMON_DEVICES_OPENCL_H
#define GM_DAEMON_DEVICES_OPENCL_H

struct gm_daemon;
struct gm_device;

/* The free bytes, which are the whole less what sessions have; with them budget
 * and score. */
void gm_opencl_rows_refresh(const struct gm_daemon *d,
			    struct gm_device *device);

#endif

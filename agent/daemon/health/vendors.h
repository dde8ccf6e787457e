/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vendors - finds the devices of HIP, OpenCL and Vulkan, at the start, and as
 * long as a row of theirs is lost.
 *
 * HIP's are the kernel's, and its vendor is amdgpu, which has no library.
 * Each file NAME.icd in vendors of [opencl] names a vendor's library, and each
 * file NAME.json in that of [vulkan] is a vendor's manifest.  For each of these
 * a gpumap-probe of its own lists the devices, within list-limit, because such
 * a library may hang or crash, and two of them in one process may not bear each
 * other.  A library that does costs its own rows.
 *
 * No process has a device open afterwards but its worker.  So nothing is known
 * of a device while no worker serves it, and its free bytes are an estimate:
 * the whole less what sessions have.
 */
#ifndef GM_DAEMON_HEALTH_VENDORS_H
#define GM_DAEMON_HEALTH_VENDORS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/base/child.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/config.h"

struct gm_daemon;
struct gm_meminfo;
struct gm_probe_wire;

#define GM_VENDORS 32u /* of all drivers */

struct gm_vendor {
	struct gm_daemon *d;
	uint32_t driver; /* enum gm_config_driver_kind */
	char name[64];   /* of its file, without ".icd" or ".json"; "amdgpu" */
	char library[256]; /* as the file has it; the manifest's path */
	struct gm_child child;
	bool is_listed;
	char why[GM_WHY_BYTES];
};

/* The module that takes what is found. */
struct gm_vendors_reader {
	/* A DEVICE.  library: of its vendor, kept by address.  memory: the
	 * source of the figures of its memory, which is the node's main memory;
	 * or NULL. */
	void (*found)(struct gm_daemon *d, const struct gm_probe_wire *wire,
		      const char *library, const struct gm_meminfo *memory);

	/* At the start: all are found, or have had their time. */
	void (*listed)(struct gm_daemon *d);
};

struct gm_vendors {
	struct gm_daemon *d;
	const struct gm_vendors_reader *reader;
	struct gm_timer look; /* config.cuda_look_again_ns */
	bool is_asking;
	bool looks_again; /* after the start */
	uint32_t n;
	uint32_t n_asked;
	uint32_t n_found[GM_CONFIG_DRIVERS]; /* devices of all vendors */
	uint8_t key[16];                     /* of uuids */
	struct gm_vendor vendors[GM_VENDORS];
	char why[GM_CONFIG_DRIVERS][GM_WHY_BYTES]; /* there may be none */
};

/* Have the vendors' libraries asked.  The reader's listed() follows from the
 * loop, or, where there is nothing to ask, at once. */
void gm_vendors_start(struct gm_daemon *d,
		      const struct gm_vendors_reader *reader);

/* Ask them again, if that is not being done: now, and not at the next time. */
void gm_vendors_look_again(struct gm_daemon *d);

/* End those that still run. */
void gm_vendors_exit(struct gm_daemon *d);

#endif

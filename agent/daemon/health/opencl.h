/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl - finds the devices of OpenCL, once, at the start.
 *
 * Each file NAME.icd of opencl.vendors names a vendor's library.  For each of
 * these a gpumap-probe of its own lists the devices, within opencl.list-limit,
 * because such a library may hang or crash, and two of them in one process may
 * not bear each other.  A library that does costs its own rows.
 *
 * No process has a device open afterwards but its worker.  So nothing is known
 * of a device while no worker serves it, and its free bytes are an estimate:
 * the whole less what sessions have.
 */
#ifndef GM_DAEMON_HEALTH_OPENCL_H
#define GM_DAEMON_HEALTH_OPENCL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/spawn.h"

struct gm_daemon;
struct gm_meminfo;
struct gm_probe_wire;

#define GM_OPENCL_VENDORS 16u

struct gm_opencl_vendor {
	struct gm_daemon *d;
	char name[64];     /* of its file, without ".icd" */
	char library[256]; /* as the file has it */
	struct gm_child child;
	struct gm_source pidfd; /* -1: it has ended, or was never started */
	struct gm_source socket;
	struct gm_timer limit;
	uint32_t n_devices; /* that were named */
	bool is_listed;
	bool is_slow; /* it was ended for that */
	char why[GM_WHY_BYTES];
};

/* The module that takes what is found. */
struct gm_opencl_reader {
	/* A DEVICE.  library: of its vendor, kept by address.  memory: the
	 * source of the figures of its memory, which is the node's main memory;
	 * or NULL. */
	void (*found)(struct gm_daemon *d, const struct gm_probe_wire *wire,
		      const char *library, const struct gm_meminfo *memory);

	/* All are found, or have had their time. */
	void (*listed)(struct gm_daemon *d);
};

struct gm_opencl_rows {
	const struct gm_opencl_reader *reader;
	uint32_t n;
	uint32_t n_running;
	uint32_t n_found; /* devices of all */
	uint8_t key[16];  /* of uuids */
	struct gm_opencl_vendor vendors[GM_OPENCL_VENDORS];
	char why[GM_WHY_BYTES]; /* there may be none of them */
};

/* Have the vendors' libraries asked.  The reader's listed() follows from the
 * loop, or, where there is nothing to ask, at once. */
void gm_opencl_rows_start(struct gm_daemon *d,
			  const struct gm_opencl_reader *reader);

/* End those that still run. */
void gm_opencl_rows_exit(struct gm_daemon *d);

#endif

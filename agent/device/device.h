/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * device - what a worker asks of the device that it serves.
 *
 * One vtable, one file per backend.  A worker opens one device, after it has
 * pinned itself, and drives it from its one dispatch thread: no backend needs
 * a lock.  The worker judges what clients wrote, cuts it into slices and
 * decides whose turn it is; a backend only computes.
 *
 * The vtable grows one entry at a time, when the first backend needs it and
 * the first caller exists: memory of the device's own (alloc, free, copies in
 * and out), lanes and events, programs and launches, export, registration of
 * client memory.  A backend without one of them leaves it NULL, and the worker
 * answers -EOPNOTSUPP for it.
 */
#ifndef GM_DEVICE_H
#define GM_DEVICE_H

#include <stdint.h>

#include "agent/device/task.h"

/* What a row's configuration says about its device. */
struct gm_device_config {
	const char *root; /* before /sys and /proc, for tests; else NULL */
	int node;         /* host: NUMA node whose memory the row has */
	uint32_t parts;   /* host: rows that share the node, 0 or 1 for one */
};

/* Bytes.  Free is a hint that neighbours make stale; the ledger is not. */
struct gm_device_memory {
	uint64_t total;
	uint64_t free;
};

struct gm_device;

struct gm_backend {
	const char *name; /* "host": also the row's kind, for people */
	uint32_t kind;    /* enum gpumap_device_kind */

	/*
	 * open - take the device
	 *
	 * config	strings in it are kept by address
	 *
	 * Returns	0; -ENODEV for a device that is not there; -ENOMEM
	 */
	int (*open)(const struct gm_device_config *config,
		    struct gm_device **ret_dev);

	/* close - give it back.  NULL is allowed. */
	void (*close)(struct gm_device *dev);

	/* memory - what it has and what is left.  Returns 0 or -errno. */
	int (*memory)(struct gm_device *dev,
		      struct gm_device_memory *ret_memory);

	/*
	 * run - do elements first to first + count - 1 of a task
	 *
	 * Slices of a task may come in any size and order, with slices of
	 * other tasks between them; how memory is written (past the caches or
	 * through them) follows from the whole task.  When it returns the
	 * elements are written and ordered before whatever the caller
	 * publishes next.
	 *
	 * Returns	0
	 *		-EOPNOTSUPP, -EINVAL	as gm_op_takes()
	 *		-ERANGE		the slice is not inside the task
	 */
	int (*run)(struct gm_device *dev, const struct gm_task *task,
		   uint64_t first, uint64_t count);
};

/* Every backend's own struct begins with this. */
struct gm_device {
	const struct gm_backend *backend;
};

extern const struct gm_backend gm_host_backend;

#endif

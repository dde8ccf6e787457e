/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * rows - the rows of the device table, as the agent knows them.
 *
 * Rows are 0 to n - 1 and keep their device, by uuid, while the segment lives;
 * reuse.h has the exception.  A row whose device is gone is LOST and has no
 * worker.  Dummy rows are READY from the start and never have one.
 * health/cards.h and health/vendors.h describe cards.  Modules report changes
 * here, which are published at once; readers that wait for a change are woken
 * for a new state only.
 */
#ifndef GM_DAEMON_DEVICES_ROWS_H
#define GM_DAEMON_DEVICES_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "agent/common/cgroup.h"
#include "agent/common/idset.h"
#include "agent/common/meminfo.h"
#include "agent/daemon/segment/validate.h"
#include "gpumap.h"
#include "shm/layout.h"

struct gm_daemon;
struct gm_row_drain;

/* Bytes that have been given back, and when. */
struct gm_recent_free {
	uint64_t bytes;      /* that were missing when what is free was read */
	uint64_t sure_bytes; /* of these, also at the reading before */
	uint64_t at_ns;
};

#define GM_RECENT_FREES 32u

struct gm_device {
	bool present; /* should serve, or is a dummy */
	struct gm_row_image facts;
	struct gm_moving_image moving;
	struct gm_idset cpus; /* of the worker; facts.cpus is its text */
	struct gm_meminfo memory;
	uint32_t parts;      /* rows that share the memory of its node */
	uint64_t dummy_free; /* of a dummy row: what its file says is free */
	uint32_t bars;       /* GM_BAR_*: why it has no worker */
	/* Barred: called once when no process has the device open. */
	void (*closed)(struct gm_daemon *d, uint32_t row);
	uint64_t cordoned_ns; /* when that was; 0: before this agent */
	uint64_t given_ns;    /* when it got its row; of an adopted one 0 */
	/* since what is free was read, oldest first */
	struct gm_recent_free back[GM_RECENT_FREES];
	uint32_t n_back;

	/* For a card. */
	char id[64];         /* "GPU-..." or "MIG-..."; else as in gpu.h */
	const char *library; /* OpenCL, Vulkan, HIP: of its vendor */
	uint8_t parent[16];  /* of a MIG instance: its card's uuid; else zero */
	bool named;          /* by a watcher */
	bool facts_are_due;  /* to be published */
	uint32_t health;     /* enum gm_probe_health */
	struct gm_row_drain *drain; /* NULL: in service */
	uint64_t clique_session;    /* whose communicators use NCCL here, */
	uint32_t n_cliques;         /* so many; see meshes/comms.c */
};

/* @ability: GPUMAP_DEVICE_SERVES, for example. */
static inline bool gm_device_can(const struct gm_device *device,
				 uint32_t ability)
{
	return (device->facts.flags & ability) != 0;
}

/* Does the probe look at it all the time, and tell what is free of it? */
static inline bool gm_device_is_watched(const struct gm_device *device)
{
	return device->facts.kind == GPUMAP_DEVICE_CUDA;
}

/* Does each worker that uses NCCL open it, by NVML? */
static inline bool gm_device_is_opened(const struct gm_device *device)
{
	return device->facts.kind == GPUMAP_DEVICE_CUDA &&
	       gm_device_can(device, GPUMAP_DEVICE_CLIQUES);
}

/* The id of a card of HIP's, without the instruction set in front. */
static inline const char *gm_device_card_id(const char *id)
{
	const char *colon = strchr(id, ':');

	return strncmp(id, "gfx", 3) == 0 && colon ? colon + 1 : id;
}

/* A limit that all host rows have together. */
struct gm_host_limit {
	struct gm_cgroup group;
	uint64_t bytes; /* UINT64_MAX: only the machine's memory */
};

struct gm_devices {
	struct gm_host_limit host_limit;
	uint32_t n;
	uint32_t n_reused; /* rows that were given anew */
	struct gm_device *of[GM_ROWS];
};

/*
 * gm_devices_start - rows for what this node has, matched with those that an
 * adopted segment has already
 *
 * ret_why	what is wrong and what to do
 *
 * Returns	0
 *		-ENODEV		no row at all
 *		-ENOSPC		more rows than the table has
 *		-EINVAL		the configuration names CPUs that are not there,
 *				or more dummy rows than there is room for
 *		-ENOMEM, and what reading sysfs returns
 */
int gm_devices_start(struct gm_daemon *d, char ret_why[GM_WHY_BYTES]);
void gm_devices_exit(struct gm_daemon *d);

/* The row's device by its uuid, NULL where it has no row. */
struct gm_device *gm_devices_find(const struct gm_daemon *d,
				  const uint8_t uuid[16]);

/*
 * gm_devices_add - a row for a device that has none, after the start
 *
 * found	copied
 *
 * Returns	the row
 *		-ENOSPC		the table, or the heap, is full
 *		-ENOMEM
 */
int gm_devices_add(struct gm_daemon *d, const struct gm_device *found);

/* Publish a row's facts, or what moves, as they are in its device. */
void gm_devices_describe(struct gm_daemon *d, uint32_t row);
void gm_devices_move(struct gm_daemon *d, uint32_t row);

/*
 * gm_devices_state - a row enters a state
 *
 * state	enum gpumap_device_state
 * reason	why it is not READY, NULL for none; cut to 55 bytes
 * error	the errno or driver code behind it, or 0
 */
void gm_devices_state(struct gm_daemon *d, uint32_t row, uint32_t state,
		      const char *reason, int error);

/* The row's worker, 0 for none, and how often it was started again. */
void gm_devices_worker(struct gm_daemon *d, uint32_t row, pid_t pid,
		       uint32_t restarts);

/* So much of the row is promised; account/ledger.c says so before it wakes
 * readers. */
void gm_devices_reserved(struct gm_daemon *d, uint32_t row, uint64_t bytes);

/* So much of a row's reserved bytes is in use by those who hold them;
 * account/credit.c says so. */
void gm_devices_used(struct gm_daemon *d, uint32_t row, uint64_t bytes);

/* Look at one row's moving facts now, and at those of every row: what the
 * timer does each config.refresh_ns. */
void gm_devices_refresh(struct gm_daemon *d);

/* Are all present rows READY? */
bool gm_devices_ready(const struct gm_daemon *d);

/* Memory of a device has been given back.  The memory counts as free until the
 * free bytes are read again. */
void gm_devices_memory_freed(struct gm_device *device,
			     const struct gm_recent_free *freed);

/* The free memory of a device was read, not before @at_ns (of the node):
 * memory that was given back earlier is part of it.  The same reading may be
 * reported again. */
void gm_devices_memory_read(struct gm_device *device, uint64_t at_ns);

#endif

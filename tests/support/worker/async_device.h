/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_device.h - a device that computes when the test says so.
 *
 * A started slice is recorded, and done only when it lands: in any order that
 * the device may choose, except for slices told to keep one.  Its memory is the
 * heap's, so that a sanitizer reports memory that is freed while it is used.
 */
#ifndef GM_TEST_SUPPORT_WORKER_ASYNC_DEVICE_H
#define GM_TEST_SUPPORT_WORKER_ASYNC_DEVICE_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "agent/device/device.h"
#include "gpumap.h"
#include "shm/atomic.h"

#define LATE_SLICES 4096u

struct late_slice {
	struct gm_task task;
	uint64_t first, count;
	uint64_t after; /* value of the slice that it must not overtake, or 0 */
	bool landed;
	int rc; /* that it ends with; 0: well */
};

struct late {
	struct gm_backend_device dev;
	struct gm_backend_device *host;       /* who computes */
	struct late_slice slice[LATE_SLICES]; /* by value, from 1 */
	uint64_t n_started, n_landed;
	uint64_t room;       /* slices under way at most */
	uint64_t most;       /* that were under way at once */
	uint64_t bytes_free; /* of its memory */
	int start_rc;        /* of the next start() */
	int reach_rc;        /* of every reach() */
	int land_rc;         /* of the next that lands */
	bool lost;
	uint32_t n_reached, n_unreached, n_buffers, n_armed, n_quit;
	gm_a32 hold; /* alloc() does not return */
};

int late_start(struct gm_backend_device *dev, const struct gm_task *task,
	       uint64_t first, uint64_t count,
	       const struct gm_async_exec *after,
	       struct gm_async_exec *ret_flight);
int late_ended(struct gm_backend_device *dev,
	       const struct gm_async_exec *flight);

/* The device does it now, and first what it must not overtake. */
void late_land(struct late *l, uint64_t value);
void late_land_all(struct late *l);
void late_quit(struct gm_backend_device *dev, const struct gm_task *task);
int late_arm(struct gm_backend_device *dev);
int late_alloc(struct gm_backend_device *dev, uint64_t owner, uint64_t bytes,
	       uint32_t flags, struct gm_buffer **ret_buffer);
void late_free(struct gm_backend_device *dev, struct gm_buffer *buffer);
int late_reach(struct gm_backend_device *dev, char *at, uint64_t bytes,
	       bool writable, struct gm_region **ret_region);
void late_unreach(struct gm_backend_device *dev, struct gm_region *region);
const char *late_fault(struct gm_backend_device *dev, int *ret_code);

/* With @slice_bytes to a slice, and @slices of a session under way at most. */
void late_open(struct late *l, uint64_t slice_bytes, uint32_t slices);
void late_close(struct late *l);

extern const struct gm_backend late_backend;

#endif

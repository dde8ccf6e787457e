/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/events.h"
#include "agent/daemon/masks/replica_private.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/worker_child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/account/quota.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/workers/worker_process.h"
#include "gpumap.h"
#include "lib/model/plan/size_text.h"
#include "shm/point.h"

#define GRANULE    (UINT64_C(2) << 20) /* that a driver takes, at least */
#define WAIT_MAX   63u                 /* looks */
#define EPOCH_BITS 15u                 /* of an id */
#define EPOCH_AT   40u

static void tell(struct gm_timer *timer);

void gm_mask_devices_init(struct gm_daemon *d)
{
	struct gm_mask_devices *all = d->mask_devices;

	all->d = d;
	all->news.fired = tell;
	TAILQ_INIT(&all->all);
}

/* A replica that is copied from is given back at the end of the copy, see
 * peer_copies.c. */
static void give_back(struct gm_mask_device *device)
{
	if (!gm_mask_peers_copied(device->d, device->id))
		gm_quota_freed(device->d, device->row, device->bytes);
}

static void close_fd(struct gm_mask_device *device)
{
	struct gm_daemon *d = device->d;

	if (device->fd < 0)
		return;
	/* The descriptor may be the last reference to the memory. */
	if (d->server)
		gm_close_thread_close(&d->server->close_thread, device->fd);
	else
		close(device->fd);
	device->fd = -1;
	device->is_imported = device->borrowers > 0;
	if (!device->is_imported)
		give_back(device);
}

static void free_device(struct gm_mask_device *device)
{
	close_fd(device);
	TAILQ_REMOVE(&device->d->mask_devices->all, device, entry);
	gm_numa_segments_drop(device->span);
	free(device);
}

void gm_mask_devices_exit(struct gm_daemon *d)
{
	struct gm_mask_device *device;

	if (!d->mask_devices->d)
		return;
	gm_timer_stop(d->loop, &d->mask_devices->news);
	/* Replicas of blocks that stay for the next agent, which makes its
	 * own. */
	while ((device = TAILQ_FIRST(&d->mask_devices->all)))
		free_device(device);
}

/* ---- what there is to tell --------------------------------------------- */

static bool is_settled(const struct gm_mask_device *device)
{
	return device->state == GM_MASK_READY ||
	       device->state == GM_MASK_FAILED;
}

/* One that waits for what is settled, or NULL. */
static struct gm_mask_wait *next_told(const struct gm_mask_devices *all)
{
	const struct gm_mask_device *device;

	TAILQ_FOREACH(device, &all->all, entry)
	{
		if (is_settled(device) && !TAILQ_EMPTY(&device->waits))
			return TAILQ_FIRST(&device->waits);
	}
	return NULL;
}

/* From the loop alone, so that no caller is called back from within its own
 * call. */
static void tell(struct gm_timer *timer)
{
	struct gm_mask_devices *all =
		gm_owner(timer, struct gm_mask_devices, news);
	struct gm_mask_wait *wait;

	while ((wait = next_told(all))) {
		const struct gm_mask_device *device = wait->device;
		char why[GM_WHY_BYTES];
		int status = device->status;

		memcpy(why, device->why, sizeof(why));
		gm_mask_device_leave(wait);
		wait->done(wait, status, why);
	}
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		uint64_t bit = UINT64_C(1) << row % 64;

		if ((all->changed[row / 64] & bit) == 0)
			continue;
		all->changed[row / 64] &= ~bit;
		gm_events_replicas_changed(all->d, row);
	}
	gm_mask_peers_go(all->d);
}

void gm_mask_device_wait(struct gm_mask_device *device,
			 struct gm_mask_wait *wait)
{
	wait->device = device;
	TAILQ_INSERT_TAIL(&device->waits, wait, entry);
	if (is_settled(device))
		gm_mask_devices_notify(device->d);
}

void gm_mask_device_leave(struct gm_mask_wait *wait)
{
	if (wait->device)
		TAILQ_REMOVE(&wait->device->waits, wait, entry);
	wait->device = NULL;
}

void gm_mask_devices_recheck(struct gm_daemon *d, uint32_t row)
{
	if (!d->mask_devices->d)
		return;
	d->mask_devices->changed[row / 64] |= UINT64_C(1) << row % 64;
	d->mask_devices->n_looks[row]++;
	gm_mask_devices_notify(d);
}

void gm_mask_device_fail(struct gm_mask_device *device, int status,
			 const char *why)
{
	device->state = GM_MASK_FAILED;
	device->status = status;
	device->is_stale = true;
	gm_mask_peers_void(device);
	snprintf(device->why, sizeof(device->why), "%s", why);
	close_fd(device);
	gm_mask_devices_notify(device->d);
}

/* ---- which there are --------------------------------------------------- */

bool gm_mask_devices_good(const struct gm_daemon *d, uint64_t id)
{
	const struct gm_mask_device *device =
		id != 0 ? gm_mask_devices_find(d, id) : NULL;

	return device && device->state == GM_MASK_READY && !device->is_stale;
}

uint64_t gm_mask_devices_bytes(const struct gm_daemon *d, uint32_t row,
			       uint32_t uid)
{
	const struct gm_mask_device *device;
	uint64_t bytes = 0;

	TAILQ_FOREACH(device, &d->mask_devices->all, entry)
	{
		if (device->row == row && device->uid == uid &&
		    gm_mask_device_is_charged(device))
			bytes += device->bytes;
	}
	return bytes + gm_mask_peers_bytes(d, row, uid);
}

void gm_mask_devices_row_bytes(const struct gm_daemon *d, uint32_t row,
			       uint32_t uid, struct gm_row_bytes *sum)
{
	sum->masks += gm_mask_devices_bytes(d, row, uid);
}

bool gm_mask_devices_row(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_mask_device *device;

	TAILQ_FOREACH(device, &d->mask_devices->all, entry)
	{
		if (device->row == row)
			return true;
	}
	return false;
}

bool gm_mask_device_is_ready(const struct gm_mask_device *device)
{
	return device->state == GM_MASK_READY;
}

uint64_t gm_mask_device_id(const struct gm_mask_device *device)
{
	return device->id;
}

bool gm_mask_device_has_fd(const struct gm_mask_device *device)
{
	return device->fd >= 0;
}

int gm_mask_device_lend(struct gm_mask_device *device)
{
	if (!device->is_lent)
		gm_mask_peers_void(device);
	device->is_lent = true;
	return device->fd;
}

uint32_t gm_mask_device_row(const struct gm_mask_device *device)
{
	return device->row;
}

uint32_t gm_mask_device_uid(const struct gm_mask_device *device)
{
	return device->uid;
}

struct gm_span *gm_mask_device_span(const struct gm_mask_device *device)
{
	return device->span;
}

void gm_mask_device_hold(struct gm_mask_device *device)
{
	device->refs++;
}

/* The answer of a worker that was asked for it is dropped then. */
void gm_mask_device_drop(struct gm_mask_device *device)
{
	struct gm_worker_process *worker;

	if (!device || --device->refs > 0)
		return;
	worker = device->d->supervisor
			 ? device->d->supervisor->rows.workers[device->row]
			 : NULL;
	/* Others may have waited for it. */
	if (device->state == GM_MASK_ASKED)
		gm_mask_devices_notify(device->d);
	free_device(device);
	if (worker && !gm_worker_process_is_needed(worker))
		gm_worker_child_unneeded(worker);
}

void gm_mask_device_borrow(struct gm_mask_device *device)
{
	device->borrowers++;
}

void gm_mask_device_return(struct gm_mask_device *device)
{
	if (device && --device->borrowers == 0 && device->is_imported) {
		device->is_imported = false;
		give_back(device);
	}
	gm_mask_device_drop(device);
}

/* ---- a new one ----------------------------------------------------------- */

/* Its own node, where that has memory of a host row; else that of the first. */
uint32_t gm_mask_devices_home(const struct gm_daemon *d, uint32_t row)
{
	int32_t own = d->devices->of[row]->facts.numa_node;
	uint32_t first = GM_NODES;

	for (uint32_t i = 0; i < d->devices->n; i++) {
		const struct gm_row_image *facts = &d->devices->of[i]->facts;

		if ((facts->flags & GPUMAP_DEVICE_MAPPED) == 0 ||
		    facts->numa_node < 0 ||
		    facts->numa_node >= (int32_t)GM_NODES)
			continue;
		if (facts->numa_node == own)
			return (uint32_t)own;
		if ((uint32_t)facts->numa_node < first)
			first = (uint32_t)facts->numa_node;
	}
	return first < GM_NODES ? first : 0;
}

static struct gm_mask_device *find_same(const struct gm_daemon *d, uint32_t row,
					uint32_t uid,
					const struct gm_span *span)
{
	struct gm_mask_device *device;

	TAILQ_FOREACH(device, &d->mask_devices->all, entry)
	{
		if (device->row == row && device->uid == uid &&
		    device->span == span && !device->is_stale)
			break;
	}
	return device;
}

static int check_bytes(struct gm_daemon *d, uint32_t row, uint32_t uid,
		       uint64_t bytes, char *ret_why)
{
	uint64_t left = gm_quota_of(d, row, uid, 0);
	struct gm_user *user = d->server ? gm_user_hold(d->server, uid) : NULL;
	int ret = 0;

	if (user) {
		ret = gm_exports_admit(d->server, row, user, bytes, ret_why);
		gm_user_drop(d->server, user);
	}
	if (ret != 0 || bytes <= left)
		return ret;
	return gm_why(
		ret_why, -ENOSPC,
		"row %u has %s left for masks of uid %u, and this one "
		"takes %s of it: release some, take the row off the list, or "
		"reserve more with a layer map",
		row, gm_size_down(left).text, (unsigned)uid,
		gm_size_up(bytes).text);
}

static int check(struct gm_daemon *d, uint32_t row, uint32_t uid,
		 uint64_t bytes, struct gm_worker_process **ret_worker,
		 char *ret_why)
{
	struct gm_worker_process *worker =
		d->supervisor ? d->supervisor->rows.workers[row] : NULL;
	int ret;

	if (!worker || worker->state == GM_PROCESS_OFF)
		return gm_why(ret_why, -ENODEV,
			      "row %u has no worker; see gpumapctl devices",
			      row);
	if (d->supervisor->draining)
		return gm_why(ret_why, -ESHUTDOWN,
			      "the agent is shutting down");
	ret = gm_attachments_admit(worker, ret_why);
	if (ret == 0)
		ret = check_bytes(d, row, uid, bytes, ret_why);
	*ret_worker = worker;
	return ret;
}

static uint64_t in_granules(uint64_t bytes)
{
	return (bytes + GRANULE - 1) / GRANULE * GRANULE;
}

/* Never used before: what names another is refused, also one of an agent before
 * us. */
static uint64_t new_id(struct gm_daemon *d, uint32_t row)
{
	uint64_t epoch = d->segment->epoch & ((UINT64_C(1) << EPOCH_BITS) - 1);

	return (uint64_t)row << 56 | UINT64_C(1) << 55 | epoch << EPOCH_AT |
	       ++d->mask_devices->last_id;
}

int gm_mask_devices_take(struct gm_daemon *d, uint32_t row, uint32_t uid,
			 struct gm_span *span, char ret_why[GM_WHY_BYTES],
			 struct gm_mask_device **ret_device)
{
	uint64_t bytes = in_granules(span->bytes);
	struct gm_mask_device *device = find_same(d, row, uid, span);
	struct gm_worker_process *worker = NULL;
	int ret;

	if (device) {
		device->refs++;
		*ret_device = device;
		return 0;
	}
	ret = check(d, row, uid, bytes, &worker, ret_why);
	if (ret != 0)
		return ret;
	device = calloc(1, sizeof(*device));
	if (!device)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	device->d = d;
	device->id = new_id(d, row);
	device->row = row;
	device->row_generation = d->devices->of[row]->facts.generation;
	device->uid = uid;
	device->refs = 1;
	device->bytes = bytes;
	device->fd = -1;
	device->span = span;
	span->refs++;
	TAILQ_INIT(&device->waits);
	TAILQ_INSERT_TAIL(&d->mask_devices->all, device, entry);
	gm_worker_process_need(worker);
	gm_attachments_flush(worker);
	*ret_device = device;
	return 0;
}

/* ---- rows that were full ------------------------------------------------- */

void gm_mask_devices_want(struct gm_daemon *d, uint32_t row, uint32_t uid,
			  uint64_t bytes)
{
	struct gm_mask_want *lack = &d->mask_devices->lacks[row];

	bytes = in_granules(bytes);
	if (lack->bytes != 0 && lack->bytes <= bytes)
		return;
	lack->bytes = bytes;
	lack->uid = uid;
}

/* Where there seems to be room again and again, and is none, it is tried ever
 * more rarely. */
void gm_mask_devices_memory_read(struct gm_daemon *d, uint32_t row)
{
	struct gm_mask_want *lack = &d->mask_devices->lacks[row];
	char why[GM_WHY_BYTES];

	if (lack->bytes == 0 ||
	    d->devices->of[row]->moving.state != GPUMAP_DEVICE_READY)
		return;
	if (check_bytes(d, row, lack->uid, lack->bytes, why) != 0) {
		lack->looks = 0;
		lack->wait = 0;
	} else if (++lack->looks > lack->wait) {
		lack->looks = 0;
		lack->wait =
			lack->wait < WAIT_MAX ? 2 * lack->wait + 1 : WAIT_MAX;
		lack->bytes = 0;
		gm_mask_devices_recheck(d, row);
	}
}

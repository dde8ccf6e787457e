/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Replicas that the worker of their row makes: gpumapd asks for them over the
 * worker's socket, asks the next worker after a death, and refuses them where
 * there will be no worker. */

#include "agent/daemon/masks/replica_private.h"
#include "agent/daemon/workers/worker_child.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/devices/p2p.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/point.h"

#define STRIKES_MAX 2u /* workers that one may cost */

/* ---- requests to workers
 * --------------------------------------------------- */

static bool is_of(const struct gm_mask_device *device,
		  const struct gm_worker_process *worker)
{
	return device->row == worker->row && gm_worker_process_is_shown(worker);
}

static bool wants_worker(const struct gm_worker_process *worker)
{
	const struct gm_mask_device *device;

	TAILQ_FOREACH(device, &worker->d->mask_devices->all, entry)
	{
		if (is_of(device, worker) && device->state <= GM_MASK_ASKED)
			return true;
	}
	return false;
}

static int ask(struct gm_worker_process *worker, struct gm_mask_device *device,
	       const struct gm_mask_device *from)
{
	struct gm_wire wire;
	int fds[2] = { gm_numa_segments_reader(device->span->segment), -1 };
	int ret;

	if (fds[0] < 0) {
		gm_mask_device_fail(device, fds[0],
				    "the memory of its node cannot be opened");
		return 0;
	}
	memset(&wire, 0, sizeof(wire)); /* the whole union */
	wire.type = GM_WIRE_MASK;
	wire.handle = device->id;
	wire.mask.at = (uint64_t)device->span->unit * GM_SPAN_UNIT;
	wire.mask.bytes = device->span->bytes;
	wire.mask.flags = gm_mask_peers_is_large(device) ? GM_MASK_MARK : 0;
	if (from != NULL) {
		fds[1] = from->fd;
		wire.mask.peer = from->id;
		wire.mask.flags |= GM_MASK_PEER;
		if (gm_p2p_paths_state(device->d, device->row, from->row) !=
		    GM_PATH_GOOD)
			wire.mask.flags |= GM_MASK_TRY;
	}
	ret = gm_worker_child_send(worker, &wire, fds, from != NULL ? 2 : 1);
	if (ret != 0)
		return ret;
	gm_mask_peers_begin(device, from);
	worker->masks[worker->n_masks++] = (struct gm_mask_question){
		.id = device->id,
		.bytes = device->bytes,
		.uid = device->uid,
		.from_row = from != NULL ? from->row : GM_ROWS,
		.from = from != NULL ? from->id : 0,
		.from_bytes = from != NULL ? from->bytes : 0,
	};
	device->state = GM_MASK_ASKED;
	device->asked = ++worker->asked;
	GM_POINT("mask_device_asked");
	return 0;
}

/* Or leave it for later. */
static int ask_or_wait(struct gm_worker_process *worker,
		       struct gm_mask_device *device)
{
	bool waits;
	const struct gm_mask_device *from = gm_mask_peers_find(device, &waits);

	if (!waits)
		return ask(worker, device, from);
	gm_mask_peers_wait(worker->d, worker->row);
	return 0;
}

static int send_all(struct gm_worker_process *worker)
{
	struct gm_mask_device *device;
	int ret = 0;

	if (worker->is_recovery || worker->drain_sent)
		return 0;
	TAILQ_FOREACH(device, &worker->d->mask_devices->all, entry)
	{
		if (ret != 0 || worker->n_masks >= GM_MASK_QUESTIONS)
			break;
		if (is_of(device, worker) && device->state == GM_MASK_WAITING)
			ret = ask_or_wait(worker, device);
	}
	return ret;
}

static const char *words_of(int status)
{
	switch (status) {
	case -ENOMEM:
		return "the device has no memory left for the mask: release "
		       "some, or take the row off the list";
	case -EOPNOTSUPP:
		return "the device's driver cannot share memory, which masks "
		       "need: take the row off the list";
	case -EMFILE:
		return "no descriptor is left for it; raise LimitNOFILE of "
		       "gpumapd";
	default:
		return "the row's worker could not make it; see its log";
	}
}

static void refused(struct gm_mask_device *device, int status)
{
	char why[GM_WHY_BYTES];

	gm_why(why, 0, "row %u: %s", device->row, words_of(status));
	gm_mask_device_fail(device, status, why);
}

/* From the loop, and by upload. */
static void again(struct gm_mask_device *device)
{
	device->state = GM_MASK_WAITING;
	device->no_peer = true;
	gm_mask_peers_wait(device->d, device->row);
	gm_mask_devices_notify(device->d);
}

/* The descriptor may be the last reference to the memory. */
static void close_unwanted(const struct gm_daemon *d, int fd)
{
	if (d->server)
		gm_close_thread_close(&d->server->close_thread, fd);
	else if (fd >= 0)
		close(fd);
}

static bool on_message(struct gm_worker_process *worker,
		       const struct gm_wire *wire, int fd)
{
	struct gm_mask_device *device;
	bool is_of_use;

	if (wire->type != GM_WIRE_MASKED)
		return false;
	if (gm_worker_process_is_shown(worker))
		gm_mask_peers_answered(worker, wire->handle);
	device = gm_mask_devices_find(worker->d, wire->handle);
	if (!device || device->state != GM_MASK_ASKED ||
	    !is_of(device, worker)) {
		close_unwanted(worker->d, fd);
		return true;
	}
	is_of_use = gm_mask_peers_end(device, wire);
	if (wire->status < 0 || fd < 0 || !is_of_use) {
		close_unwanted(worker->d, fd);
		if (!is_of_use)
			again(device);
		else
			refused(device,
				wire->status < 0 ? wire->status : -EMFILE);
	} else {
		device->fd = fd;
		device->bytes = wire->masked.device_bytes;
		device->state = GM_MASK_READY;
		gm_mask_devices_notify(device->d);
		gm_log_of(device->uid, GM_LOG_INFO, "mask_on_device",
			  "row=%u export=%#" PRIx64 " bytes=%" PRIu64
			  " uid=%u way=%s",
			  device->row, device->id, device->span->bytes,
			  (unsigned)device->uid,
			  wire->masked.flags & GM_MASK_PEER ? "peer"
							    : "upload");
		GM_POINT("mask_device_ready");
	}
	if (!gm_worker_process_is_needed(worker))
		gm_worker_child_unneeded(worker);
	return true;
}

/* The one that the worker was at: it takes them in the order of asking. */
static void strike(struct gm_worker_process *worker)
{
	struct gm_mask_device *device, *first = NULL;
	char why[GM_WHY_BYTES];

	TAILQ_FOREACH(device, &worker->d->mask_devices->all, entry)
	{
		if (is_of(device, worker) && device->state == GM_MASK_ASKED &&
		    (!first || device->asked < first->asked))
			first = device;
	}
	if (!first || ++first->strikes < STRIKES_MAX)
		return;
	gm_why(why, -EIO, "workers of row %u die of making it; see its log",
	       worker->row);
	gm_mask_device_fail(first, -EIO, why);
}

static void worker_gone(struct gm_worker_process *worker, bool well)
{
	struct gm_mask_device *device;
	bool is_any = false;

	if (!gm_worker_process_is_shown(worker))
		return;
	if (!well)
		strike(worker);
	gm_mask_peers_silence(worker);
	TAILQ_FOREACH(device, &worker->d->mask_devices->all, entry)
	{
		if (!is_of(device, worker))
			continue;
		if (device->state == GM_MASK_ASKED) {
			gm_mask_peers_lost(device, well);
			device->state = GM_MASK_WAITING;
			gm_mask_devices_notify(device->d);
		}
		if (!well && device->state == GM_MASK_READY) {
			device->is_stale = true;
			gm_mask_peers_void(device);
			is_any = true;
		}
	}
	if (is_any)
		gm_mask_devices_recheck(worker->d, worker->row);
}

static void refuse_all(struct gm_worker_process *worker, int status,
		       const char *why)
{
	struct gm_mask_device *device;

	TAILQ_FOREACH(device, &worker->d->mask_devices->all, entry)
	{
		if (is_of(device, worker) && device->state <= GM_MASK_ASKED)
			gm_mask_device_fail(device, status, why);
	}
}

static void close_row(struct gm_daemon *d, uint32_t row)
{
	struct gm_mask_device *device;
	bool is_any = false;

	TAILQ_FOREACH(device, &d->mask_devices->all, entry)
	{
		if (device->row != row || device->state != GM_MASK_READY)
			continue;
		gm_mask_device_fail(device, -ENODEV,
				    "the row is out of service");
		is_any = true;
	}
	if (is_any)
		gm_mask_devices_recheck(d, row);
}

const struct gm_worker_user gm_mask_worker_user = {
	.wants_worker = wants_worker,
	.uses_row = gm_mask_devices_read,
	.say = send_all,
	.on_message = on_message,
	.worker_gone = worker_gone,
	.refused = refuse_all,
	.row_closing = close_row,
};

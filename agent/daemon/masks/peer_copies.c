/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Replicas that are copied from card to card.
 *
 * The first card that gets a large mask has it uploaded.  Cards with NVLinks to
 * it wait until it is there, which takes as long as an upload of their own, and
 * leaves the host's memory and processors to others.  Without links, a card
 * copies from a replica that is there already, and waits for none.
 *
 * A card waits only for a replica that its row's worker makes now, and that one
 * waits for none itself.  Each error on the way ends in an upload: the path
 * does not work, the source's worker dies, its row is taken out of service, or
 * a client is given the source while it is read, and could write there.  For
 * the same reason no replica is copied from that a client was given before.
 */

#include "agent/daemon/masks/replica_private.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/demand.h"

#include <errno.h>

#include "agent/daemon/account/quota.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/p2p.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/workers/worker_process.h"

/* Bytes from which on a copy from another card is worth the import of its
 * memory, some hundred microseconds in the driver, in which an upload from
 * memory that is not pinned gets some megabytes far. */
#define LARGE (UINT64_C(8) << 20)

static uint64_t bit_of(uint32_t row)
{
	return UINT64_C(1) << row % 64;
}

bool gm_mask_peers_is_large(const struct gm_mask_device *device)
{
	return device->span->bytes >= LARGE;
}

static bool is_source(const struct gm_mask_device *from,
		      const struct gm_mask_device *device)
{
	enum gm_path_state path;

	if (from->span != device->span || from->uid != device->uid ||
	    from->row == device->row || from->is_stale || from->is_lent)
		return false;
	path = gm_p2p_paths_state(device->d, device->row, from->row);
	return path == GM_PATH_GOOD || path == GM_PATH_UNTRIED;
}

struct gm_mask_device *gm_mask_peers_find(const struct gm_mask_device *device,
					  bool *ret_waits)
{
	struct gm_mask_device *from, *best = NULL;
	uint32_t most = 0;

	*ret_waits = false;
	if (device->no_peer || !gm_mask_peers_is_large(device))
		return NULL;
	TAILQ_FOREACH(from, &device->d->mask_devices->all, entry)
	{
		uint32_t links;

		if (!is_source(from, device))
			continue;
		links = gm_p2p_paths_links(device->d, device->row, from->row);
		if (from->state == GM_MASK_ASKED && links > 0)
			*ret_waits = true;
		if (from->state != GM_MASK_READY || (best && links <= most))
			continue;
		best = from;
		most = links;
	}
	if (best)
		*ret_waits = false;
	return best;
}

void gm_mask_peers_begin(struct gm_mask_device *device,
			 const struct gm_mask_device *from)
{
	device->is_void = false;
	device->from = from ? from->id : 0;
	device->from_row = from ? from->row : 0;
}

/* A lack of memory is no fault of the path. */
static bool is_verdict(int status)
{
	return status != -ENOMEM && status != -EMFILE && status != -EOPNOTSUPP;
}

/* Returns whether it was read from another. */
static bool leave(struct gm_mask_device *device)
{
	bool was_read = device->from != 0;

	device->from = 0;
	return was_read;
}

/* ---- what workers have --------------------------------------------------- */

static bool is_charged(const struct gm_daemon *d, uint64_t id)
{
	const struct gm_mask_device *device = gm_mask_devices_find(d, id);

	return device && gm_mask_device_is_charged(device);
}

/* The first question that is about copying from it, or NULL. */
static const struct gm_mask_question *copier_of(const struct gm_daemon *d,
						uint64_t id)
{
	const struct gm_worker_process *worker;

	if (!d->supervisor)
		return NULL;
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		for (uint32_t i = 0; i < worker->n_masks; i++) {
			if (worker->masks[i].from == id)
				return &worker->masks[i];
		}
	}
	return NULL;
}

bool gm_mask_peers_copied(const struct gm_daemon *d, uint64_t id)
{
	return copier_of(d, id) != NULL;
}

/* Several workers may copy from one. */
static uint64_t bytes_of(const struct gm_worker_process *worker,
			 const struct gm_mask_question *q, uint32_t row)
{
	const struct gm_daemon *d = worker->d;
	uint64_t bytes = 0;

	if (worker->row == row && !is_charged(d, q->id))
		bytes += q->bytes;
	if (q->from_row == row && !is_charged(d, q->from) &&
	    copier_of(d, q->from) == q)
		bytes += q->from_bytes;
	return bytes;
}

uint64_t gm_mask_peers_bytes(const struct gm_daemon *d, uint32_t row,
			     uint32_t uid)
{
	const struct gm_worker_process *worker;
	uint64_t bytes = 0;

	if (!d->supervisor)
		return 0;
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		for (uint32_t i = 0; i < worker->n_masks; i++) {
			if (worker->masks[i].uid == uid)
				bytes += bytes_of(worker, &worker->masks[i],
						  row);
		}
	}
	return bytes;
}

/* No worker has it for this question any more. */
static void left_by_worker(struct gm_daemon *d, uint32_t row, uint64_t id,
			   uint64_t bytes)
{
	if (!is_charged(d, id) && !gm_mask_peers_copied(d, id))
		gm_quota_freed(d, row, bytes);
}

static void forget(struct gm_worker_process *worker, uint32_t i)
{
	struct gm_mask_question q = worker->masks[i];

	worker->masks[i] = worker->masks[--worker->n_masks];
	left_by_worker(worker->d, worker->row, q.id, q.bytes);
	if (q.from_row < GM_ROWS) {
		left_by_worker(worker->d, q.from_row, q.from, q.from_bytes);
		gm_demand_recheck(worker->d->supervisor);
	}
	gm_mask_devices_notify(worker->d);
}

void gm_mask_peers_answered(struct gm_worker_process *worker, uint64_t id)
{
	for (uint32_t i = 0; i < worker->n_masks; i++) {
		if (worker->masks[i].id != id)
			continue;
		forget(worker, i);
		return;
	}
}

void gm_mask_peers_silence(struct gm_worker_process *worker)
{
	while (worker->n_masks > 0)
		forget(worker, worker->n_masks - 1);
}

bool gm_mask_peers_end(struct gm_mask_device *device,
		       const struct gm_wire *wire)
{
	if (!leave(device))
		return true;
	if (device->is_void)
		return (wire->masked.flags & GM_MASK_PEER) == 0;
	if ((wire->masked.flags & GM_MASK_TRY) && is_verdict(wire->masked.code))
		gm_p2p_paths_tried(device->d, device->row, device->from_row,
				   wire->masked.code);
	return true;
}

void gm_mask_peers_lost(struct gm_mask_device *device, bool well)
{
	if (!leave(device) || well)
		return;
	/* The path may have been the cause of its death: the next worker does
	 * not try it. */
	gm_p2p_paths_tried(device->d, device->row, device->from_row, -ESTALE);
	device->no_peer = true;
}

void gm_mask_peers_void(const struct gm_mask_device *from)
{
	struct gm_mask_device *device;

	TAILQ_FOREACH(device, &from->d->mask_devices->all, entry)
	{
		if (device->state == GM_MASK_ASKED && device->from == from->id)
			device->is_void = true;
	}
}

bool gm_mask_devices_read(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_worker_process *worker;

	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		for (uint32_t i = 0; i < worker->n_masks; i++) {
			if (worker->masks[i].from_row == row)
				return true;
		}
	}
	return false;
}

void gm_mask_peers_wait(struct gm_daemon *d, uint32_t row)
{
	d->mask_devices->waiting[row / 64] |= bit_of(row);
}

static bool take(uint64_t *rows, uint32_t row)
{
	bool is_set = (rows[row / 64] & bit_of(row)) != 0;

	rows[row / 64] &= ~bit_of(row);
	return is_set;
}

void gm_mask_peers_go(struct gm_daemon *d)
{
	struct gm_mask_devices *all = d->mask_devices;

	for (uint32_t row = 0; row < GM_ROWS && d->supervisor; row++) {
		struct gm_worker_process *worker =
			d->supervisor->rows.workers[row];

		if (take(all->waiting, row) && worker != NULL)
			gm_attachments_flush(worker);
	}
}

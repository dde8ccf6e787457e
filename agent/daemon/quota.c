/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/quota.h"

#include "agent/daemon/daemon.h"
#include "agent/daemon/exports.h"
#include "shm/score.h"

static uint64_t left(uint64_t of, uint64_t taken)
{
	return of > taken ? of - taken : 0;
}

uint64_t gm_quota_of(const struct gm_daemon *d, uint32_t row, uint32_t uid,
		     uint64_t has)
{
	const struct gm_device *device = d->devices.of[row];
	uint64_t own = gm_ledger_share(d, uid, row);
	uint64_t others = left(d->ledger.promised[row], own);
	uint64_t total = device->facts.total_bytes;
	uint64_t bytes = device->moving.free_bytes;
	uint64_t masks;

	if (total == 0)
		return UINT64_MAX;
	/* Not free, and not to be had for anything else. */
	masks = gm_mask_devices_bytes(d, row, uid);
	has += device->back_bytes[0] + device->back_bytes[1] + masks;
	bytes = has < left(total, bytes) ? bytes + has : total;
	bytes = gm_budget(left(bytes, others), total);
	if (bytes < own)
		bytes = own;
	return left(bytes, gm_exports_abandoned(d, row, uid) + masks);
}

void gm_quota_back(struct gm_daemon *d, uint32_t row, uint64_t bytes)
{
	d->devices.of[row]->back_bytes[0] += bytes;
}

void gm_quota_looked(struct gm_device *device)
{
	device->back_bytes[1] = device->back_bytes[0];
	device->back_bytes[0] = 0;
}

uint64_t gm_quota_exports(const struct gm_daemon *d, uint32_t row, uint32_t uid)
{
	uint64_t total = d->devices.of[row]->facts.total_bytes;
	uint64_t own = gm_ledger_share(d, uid, row);

	if (total == 0)
		return UINT64_MAX;
	return own > total / 2 ? own : total / 2;
}

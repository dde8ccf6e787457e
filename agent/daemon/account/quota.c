/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/quota.h"

#include "agent/common/node_clock.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/account/usage.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "lib/model/plan/checked.h"
#include "shm/score.h"

uint64_t gm_quota_of(const struct gm_daemon *d, uint32_t row, uint32_t uid,
		     uint64_t has)
{
	const struct gm_device *device = d->devices->of[row];
	struct gm_promise own = gm_ledger_share(d, uid, row);
	uint64_t own_used = own.own_bytes + own.session_bytes;
	uint64_t others =
		gm_minus(d->ledger->promised[row] - d->ledger->used[row],
			 own.bytes - own_used);
	uint64_t total = device->facts.total_bytes;
	struct gm_row_bytes other;
	uint64_t bytes;

	if (total == 0)
		return UINT64_MAX;
	/* Replicas of masks are not free, and are of no other use. */
	other = gm_events_row_bytes(d, row, uid);
	bytes = gm_usage_free(d, row, false);
	has += other.masks;
	bytes = has < gm_minus(total, bytes) ? bytes + has : total;
	bytes = gm_budget(gm_minus(bytes, others), total);
	/* Sessions cannot have the part that its processes have themselves. */
	if (bytes < own.bytes - own.own_bytes)
		bytes = own.bytes - own.own_bytes;
	return gm_minus(bytes, other.abandoned + other.masks);
}

void gm_quota_freed(struct gm_daemon *d, uint32_t row, uint64_t bytes)
{
	const struct gm_recent_free freed = { .bytes = bytes,
					      .at_ns = gm_node_clock_now() };

	gm_devices_memory_freed(d->devices->of[row], &freed);
}

uint64_t gm_quota_exports(const struct gm_daemon *d, uint32_t row, uint32_t uid)
{
	uint64_t total = d->devices->of[row]->facts.total_bytes;
	uint64_t own = gm_ledger_share(d, uid, row).bytes;

	if (total == 0)
		return UINT64_MAX;
	return own > total / 2 ? own : total / 2;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/subscribers.h"

#include "agent/daemon/account/credit.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/account/retry_queue.h"
#include "agent/daemon/account/usage.h"
#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/cluster/cluster.h"
#include "agent/daemon/health/cards.h"
#include "agent/daemon/health/drain.h"
#include "agent/daemon/map/admit_place.h"
#include "agent/daemon/map/calibration.h"
#include "agent/daemon/map/cordon.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/publish.h"
#include "agent/daemon/masks/replica_loans.h"
#include "agent/daemon/masks/republish.h"
#include "agent/daemon/masks/state.h"
#include "agent/daemon/meshes/epochs.h"
#include "agent/daemon/meshes/mesh_kind.h"
#include "agent/daemon/meshes/open_cards.h"
#include "agent/daemon/meshes/rendezvous.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/sessions/map_waits.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sessions/trace_request.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/sharing/peer_access.h"
#include "agent/daemon/sharing/share_answer.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/state/state.h"
#include "agent/daemon/workers/supervisor.h"
#include "agent/daemon/workers/worker_users.h"

/* Its session last: what it asked for goes first. */
static void connection_dropped(struct gm_connection *c, const char *why)
{
	gm_transactions_connection_dropped(c, why);
	gm_admit_place_connection_dropped(c, why);
	gm_cluster_connection_dropped(c);
	gm_drains_connection_dropped(c, why);
	gm_retry_queue_connection_dropped(c, why);
	gm_exports_connection_dropped(c, why);
	gm_mask_loans_connection_dropped(c, why);
	gm_rendezvous_connection_dropped(c, why);
	gm_map_waits_connection_dropped(c, why);
	gm_share_answers_connection_dropped(c, why);
	gm_trace_request_connection_dropped(c);
	gm_session_connection_dropped(c, why);
}

static void fd_store_sent(struct gm_daemon *d)
{
	gm_share_answers_sent(d);
}

static void slot_stored(struct gm_daemon *d, uint32_t slot,
			const struct gm_put *put)
{
	gm_ledger_slot_stored(d, slot, put);
	gm_credit_slot_stored(d);
	gm_wait_line_changed(d);
}

static void object_moved(struct gm_daemon *d, const struct gm_block *old,
			 const struct gm_block *new_block)
{
	gm_pins_object_moved(d, old, new_block);
	gm_rendezvous_object_moved(d, old, new_block);
}

static void map_published(struct gm_daemon *d, const char *name)
{
	gm_mask_changes_follow(d, name);
	gm_admit_place_map_published(d, name);
}

static bool block_pinned(const struct gm_daemon *d, uint32_t unit)
{
	return gm_pins_have(d, unit);
}

static void block_freed(struct gm_daemon *d, uint32_t unit)
{
	gm_masks_reclaim(d, unit);
}

static void row_closing(struct gm_daemon *d, uint32_t row)
{
	gm_epochs_row(d, row);
	gm_rendezvous_recheck(d);
}

static void row_ready(struct gm_daemon *d, uint32_t row)
{
	gm_epochs_row(d, row);
	gm_rendezvous_recheck(d);
	gm_mask_devices_recheck(d, row);
	gm_wait_line_changed(d);
}

static void row_unseen(struct gm_daemon *d, uint32_t row)
{
	gm_cards_unseen(d, row);
}

static void row_came(struct gm_daemon *d)
{
	gm_cordons_row_came(d);
	gm_calibration_row_came(d);
	gm_transactions_row_came(d);
	gm_wait_line_changed(d);
}

static void row_memory_read(struct gm_daemon *d, uint32_t row)
{
	gm_credit_row_read(d, row);
	gm_mask_devices_memory_read(d, row);
	gm_wait_line_changed(d);
}

static void replicas_changed(struct gm_daemon *d, uint32_t row)
{
	gm_mask_changes_renew(d, row);
}

static void row_reused(struct gm_daemon *d, uint32_t row)
{
	gm_credit_forget(d, row);
	gm_supervisor_row_reused(d, row);
}

static bool row_used(const struct gm_daemon *d, uint32_t row)
{
	return gm_drains_has(d, row) || gm_supervisor_row_used(d, row) ||
	       gm_export_accounting_row(d, row) ||
	       gm_mask_devices_row(d, row) || gm_state_row_used(d, row) ||
	       gm_transactions_name(d, row);
}

static void row_bytes(const struct gm_daemon *d, uint32_t row, uint32_t uid,
		      struct gm_row_bytes *sum)
{
	gm_mask_devices_row_bytes(d, row, uid, sum);
	gm_exports_row_bytes(d, row, uid, sum);
}

static const struct gm_events events = {
	.connection_dropped = connection_dropped,
	.fd_store_sent = fd_store_sent,
	.slot_stored = slot_stored,
	.object_moved = object_moved,
	.map_published = map_published,
	.block_pinned = block_pinned,
	.block_freed = block_freed,
	.row_closing = row_closing,
	.row_ready = row_ready,
	.row_unseen = row_unseen,
	.row_came = row_came,
	.row_memory_read = row_memory_read,
	.replicas_changed = replicas_changed,
	.row_reused = row_reused,
	.row_used = row_used,
	.row_used_bytes = gm_usage_of_row,
	.row_bytes = row_bytes,
	.kept_bytes = gm_exports_kept_bytes,
};

static const struct gm_worker_user *const worker_users[] = {
	&gm_peer_worker_user, &gm_open_cards_worker_user, &gm_mask_worker_user,
	&gm_share_worker_user, NULL
};

static const struct gm_state_kind *const state_kinds[] = {
	&gm_map_kind, &gm_mesh_kind, &gm_mask_kind, NULL
};

void gm_subscribers_set(struct gm_daemon *d)
{
	d->events = &events;
	d->worker_users = worker_users;
	d->state_kinds = state_kinds;
}

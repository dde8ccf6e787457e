/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/events.h"

#include "agent/daemon/base/parts.h"
#include "agent/daemon/segment/directory.h"

void gm_events_connection_dropped(const struct gm_daemon *d,
				  struct gm_connection *c, const char *why)
{
	if (d->events)
		d->events->connection_dropped(c, why);
}

void gm_events_fd_store_sent(struct gm_daemon *d)
{
	if (d->events)
		d->events->fd_store_sent(d);
}

void gm_events_slot_stored(struct gm_daemon *d, uint32_t slot,
			   const struct gm_put *put)
{
	if (d->events)
		d->events->slot_stored(d, slot, put);
}

void gm_events_object_moved(struct gm_daemon *d, const struct gm_block *old,
			    const struct gm_block *new_block)
{
	if (d->events)
		d->events->object_moved(d, old, new_block);
}

void gm_events_map_published(struct gm_daemon *d, const char *name)
{
	if (d->events)
		d->events->map_published(d, name);
}

bool gm_events_block_pinned(const struct gm_daemon *d, uint32_t unit)
{
	return d->events && d->events->block_pinned(d, unit);
}

void gm_events_block_freed(struct gm_daemon *d, uint32_t unit)
{
	if (d->events)
		d->events->block_freed(d, unit);
}

void gm_events_row_closing(struct gm_daemon *d, uint32_t row)
{
	if (d->events)
		d->events->row_closing(d, row);
}

void gm_events_row_ready(struct gm_daemon *d, uint32_t row)
{
	if (d->events)
		d->events->row_ready(d, row);
}

void gm_events_row_unseen(struct gm_daemon *d, uint32_t row)
{
	if (d->events)
		d->events->row_unseen(d, row);
}

void gm_events_row_came(struct gm_daemon *d)
{
	if (d->events)
		d->events->row_came(d);
}

void gm_events_row_memory_read(struct gm_daemon *d, uint32_t row)
{
	if (d->events)
		d->events->row_memory_read(d, row);
}

void gm_events_replicas_changed(struct gm_daemon *d, uint32_t row)
{
	if (d->events)
		d->events->replicas_changed(d, row);
}

void gm_events_row_reused(struct gm_daemon *d, uint32_t row)
{
	if (d->events)
		d->events->row_reused(d, row);
}

bool gm_events_row_used(const struct gm_daemon *d, uint32_t row)
{
	return d->events && d->events->row_used(d, row);
}

uint64_t gm_events_row_used_bytes(const struct gm_daemon *d, uint32_t row)
{
	return d->events ? d->events->row_used_bytes(d, row) : 0;
}

struct gm_row_bytes gm_events_row_bytes(const struct gm_daemon *d, uint32_t row,
					uint32_t uid)
{
	struct gm_row_bytes sum = { 0 };

	if (d->events)
		d->events->row_bytes(d, row, uid, &sum);
	return sum;
}

void gm_events_kept_bytes(const struct gm_daemon *d, uint64_t *sums)
{
	if (d->events)
		d->events->kept_bytes(d, sums);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/usage.h"

#include <string.h>

#include "agent/common/node_clock.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/workers/worker_process.h"

/* ---- what workers say -------------------------------------------------- */

static uint64_t said_bytes(const struct gm_attachment *attachment)
{
	return gm_get(
		&gm_journal_at(attachment->worker->journal, attachment->place)
			 ->bytes);
}

/* A client's program may have written the journal of its worker. */
static bool is_believed(const struct gm_worker_process *worker)
{
	return !worker->group->runs_programs;
}

/* A worker that has been told of an attachment has begun at zero. */
uint64_t gm_usage_of_attachment(const struct gm_attachment *attachment)
{
	const struct gm_worker_process *worker = attachment->worker;

	if (!worker || worker->is_recovery ||
	    !gm_worker_process_has_child(worker) ||
	    attachment->state <= GM_ATTACHMENT_OFFERED)
		return 0;
	return said_bytes(attachment);
}

uint64_t gm_usage_within_reach(const struct gm_worker_process *worker,
			       uint32_t uid)
{
	const struct gm_attachment *attachment;
	uint64_t bytes = 0;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->uid == uid ||
		    (attachment->state >= GM_ATTACHMENT_LEAVING &&
		     is_believed(worker)))
			bytes += gm_usage_of_attachment(attachment);
	}
	return bytes;
}

/* ---- since what is free was read ----------------------------------------- */

/* The worker whose journal is believed, NULL where the row has none. */
static const struct gm_worker_process *worker_of(const struct gm_daemon *d,
						 uint32_t row)
{
	return d->supervisor != NULL ? d->supervisor->rows.workers[row] : NULL;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void gm_usage_noted(struct gm_daemon *d, uint32_t row, bool is_now)
{
	const struct gm_worker_process *worker = worker_of(d, row);
	struct gm_attachment *attachment;

	if (worker == NULL)
		return;
	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		uint64_t bytes = gm_usage_of_attachment(attachment);

		attachment->sure_bytes =
			is_now ? bytes : least(attachment->seen_bytes, bytes);
		attachment->seen_bytes = bytes;
	}
}

/* Bytes that sessions have; or of these, what they have taken since. */
static uint64_t bytes_of(const struct gm_daemon *d, uint32_t row, bool is_new)
{
	const struct gm_worker_process *worker = worker_of(d, row);
	const struct gm_attachment *attachment;
	uint64_t sum = 0;

	if (worker == NULL)
		return 0;
	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		uint64_t bytes = gm_usage_of_attachment(attachment);

		sum += bytes -
		       (is_new ? least(attachment->seen_bytes, bytes) : 0);
	}
	return sum;
}

uint64_t gm_usage_of_row(const struct gm_daemon *d, uint32_t row)
{
	return bytes_of(d, row, false);
}

uint64_t gm_usage_free(const struct gm_daemon *d, uint32_t row, bool is_sure)
{
	const struct gm_device *device = d->devices->of[row];
	uint64_t total = device->facts.total_bytes;
	uint64_t bytes = device->moving.free_bytes,
		 taken = bytes_of(d, row, true);

	for (uint32_t i = 0; i < device->n_back && bytes < total; i++)
		bytes += is_sure ? device->back[i].sure_bytes
				 : device->back[i].bytes;
	bytes = least(bytes, total);
	return bytes > taken ? bytes - taken : 0;
}

uint64_t gm_usage_of_process(const struct gm_daemon *d, uint32_t row, pid_t pid)
{
	const struct gm_worker_process *worker = worker_of(d, row);
	const struct gm_attachment *attachment;
	uint64_t bytes = 0;

	if (worker == NULL)
		return 0;
	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->pid == pid)
			bytes += attachment->sure_bytes;
	}
	return bytes;
}

/* Memory that others have imported is not free. */
static void give_back(const struct gm_worker_process *worker,
		      struct gm_attachment *attachment)
{
	struct gm_row_bytes other =
		gm_events_row_bytes(worker->d, worker->row, attachment->uid);
	const struct gm_recent_free freed = {
		.bytes = attachment->seen_bytes,
		.sure_bytes = attachment->sure_bytes > other.abandoned
				      ? attachment->sure_bytes - other.abandoned
				      : 0,
		.at_ns = gm_node_clock_now(),
	};

	attachment->seen_bytes = attachment->sure_bytes = 0;
	if (freed.bytes != 0)
		gm_devices_memory_freed(worker->d->devices->of[worker->row],
					&freed);
}

void gm_usage_leaves(struct gm_attachment *attachment)
{
	const struct gm_worker_process *worker = attachment->worker;

	if (!worker->is_recovery && is_believed(worker) &&
	    attachment->state == GM_ATTACHMENT_LEFT)
		give_back(worker, attachment);
}

void gm_usage_ends(const struct gm_worker_process *worker)
{
	struct gm_attachment *attachment;

	if (!is_believed(worker))
		return;
	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->state == GM_ATTACHMENT_TAKEN ||
		    attachment->state == GM_ATTACHMENT_LEAVING)
			give_back(worker, attachment);
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/usage.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/account/quota.h"
#include "agent/daemon/base/parts.h"
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

void gm_usage_leaves(const struct gm_attachment *attachment)
{
	const struct gm_worker_process *worker = attachment->worker;

	if (!worker->is_recovery && is_believed(worker) &&
	    attachment->state == GM_ATTACHMENT_LEFT)
		gm_quota_freed(worker->d, worker->row, said_bytes(attachment));
}

void gm_usage_ends(const struct gm_worker_process *worker)
{
	const struct gm_attachment *attachment;

	if (!is_believed(worker))
		return;
	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->state == GM_ATTACHMENT_TAKEN ||
		    attachment->state == GM_ATTACHMENT_LEAVING)
			gm_quota_freed(worker->d, worker->row,
				       said_bytes(attachment));
	}
}

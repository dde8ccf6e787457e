/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/user_queue.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/daemon/workers/worker_process.h"

int gm_user_queue_join(struct gm_worker_process *worker,
		       struct gm_attachment *attachment)
{
	struct gm_user_queue *queued_user;

	LIST_FOREACH(queued_user, &worker->user_queue, entry)
	{
		if (queued_user->uid == attachment->uid)
			break;
	}
	if (!queued_user) {
		queued_user = calloc(1, sizeof(*queued_user));
		if (!queued_user)
			return -ENOMEM;
		queued_user->uid = attachment->uid;
		LIST_INSERT_HEAD(&worker->user_queue, queued_user, entry);
	}
	queued_user->n_attachments++;
	attachment->queued_user = queued_user;
	attachment->asked = 0;
	return 0;
}

void gm_user_queue_leave(struct gm_attachment *attachment)
{
	struct gm_user_queue *queued_user = attachment->queued_user;

	attachment->queued_user = NULL;
	if (--queued_user->n_attachments)
		return;
	LIST_REMOVE(queued_user, entry);
	free(queued_user);
}

bool gm_user_queue_have_place(const struct gm_worker_process *worker,
			      const struct gm_attachment *attachment,
			      bool is_fetch)
{
	if (worker->n_asked >= GM_USER_QUEUE_MOST)
		return false;
	if (!is_fetch)
		return true;
	return worker->n_fetches < GM_USER_QUEUE_FETCHES &&
	       attachment->queued_user->n_fetches < GM_USER_QUEUE_FETCHES / 2;
}

bool gm_user_queue_are_before(const struct gm_attachment *attachment,
			      const struct gm_attachment *other)
{
	const struct gm_user_queue *a = attachment->queued_user,
				   *b = other->queued_user;

	if (a->n_asked != b->n_asked)
		return a->n_asked < b->n_asked;
	if (a->asked != b->asked)
		return a->asked < b->asked;
	return attachment->asked < other->asked;
}

void gm_user_queue_asked(struct gm_worker_process *worker,
			 struct gm_attachment *attachment, bool is_fetch)
{
	worker->n_asked++;
	worker->n_fetches += is_fetch;
	attachment->queued_user->n_asked++;
	attachment->queued_user->n_fetches += is_fetch;
	attachment->queued_user->asked = attachment->asked = ++worker->asked;
}

static void take_from(uint32_t *n, uint32_t one)
{
	if (*n)
		*n -= one;
}

void gm_user_queue_answered(struct gm_worker_process *worker,
			    struct gm_attachment *attachment, bool is_fetch)
{
	take_from(&worker->n_asked, 1);
	take_from(&worker->n_fetches, is_fetch);
	if (!attachment)
		return;
	take_from(&attachment->queued_user->n_asked, 1);
	take_from(&attachment->queued_user->n_fetches, is_fetch);
}

void gm_user_queue_silence(struct gm_worker_process *worker)
{
	struct gm_user_queue *queued_user;

	worker->n_asked = worker->n_fetches = 0;
	LIST_FOREACH(queued_user, &worker->user_queue, entry)
	queued_user->n_asked = queued_user->n_fetches = 0;
}

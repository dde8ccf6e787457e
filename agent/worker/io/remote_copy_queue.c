/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/remote_copy_queue.h"

#include "agent/worker/control/async_op_private.h"
#include "agent/worker/queue/accounting.h"

void gm_remote_copy_queue_init(struct gm_remote_copy_queue *remote_copies)
{
	*remote_copies = (struct gm_remote_copy_queue){ 0 };
	STAILQ_INIT(&remote_copies->waiting);
}

/* Bytes that a user has had, at least the count of the others when it came. */
static uint64_t carried_for(const struct gm_remote_copy_queue *f,
			    const struct gm_row_user *g)
{
	return g->carried > f->carried ? g->carried : f->carried;
}

static void hand_over(struct gm_worker *w, struct gm_async_op_job *e)
{
	struct gm_row_user *user = e->session->user;
	struct gm_remote_copy_queue *f = &w->remote_copies;

	STAILQ_REMOVE(&f->waiting, &e->job, gm_blocking_job, entry);
	f->n--;
	f->n_in_flight++;
	/* A user that has left is not charged. */
	if (user) {
		f->carried = carried_for(f, user);
		user->carried = f->carried + e->bytes;
		gm_charge_user(w, e->session, (int64_t)e->bytes);
	}
	gm_async_op_hand_over(w, e);
}

/* Returns NULL if no job may go in this round. */
static struct gm_async_op_job *next(const struct gm_worker *w)
{
	const struct gm_remote_copy_queue *f = &w->remote_copies;
	struct gm_async_op_job *first = NULL;
	struct gm_blocking_job *job;
	uint64_t least = 0;

	STAILQ_FOREACH(job, &f->waiting, entry)
	{
		struct gm_async_op_job *e = (struct gm_async_op_job *)job;
		uint64_t bytes = carried_for(f, e->session->user);

		if (!gm_charge_left(w, e->session) || (first && bytes >= least))
			continue;
		first = e;
		least = bytes;
	}
	return first;
}

bool gm_remote_copy_queue_go(struct gm_worker *worker)
{
	struct gm_remote_copy_queue *f = &worker->remote_copies;
	struct gm_async_op_job *e = NULL;
	bool any = false;

	while (f->n && f->n_in_flight < GM_REMOTE_COPY_QUEUE_MOST &&
	       (e = next(worker)) != NULL) {
		hand_over(worker, e);
		any = true;
	}
	f->held = f->n && f->n_in_flight < GM_REMOTE_COPY_QUEUE_MOST;
	return any;
}

void gm_remote_copy_queue_give(struct gm_worker *worker,
			       struct gm_async_op_job *e)
{
	struct gm_remote_copy_queue *f = &worker->remote_copies;

	STAILQ_INSERT_TAIL(&f->waiting, &e->job, entry);
	f->n++;
	if (e->session->ended)
		hand_over(worker, e);
	else
		gm_remote_copy_queue_go(worker);
}

void gm_remote_copy_queue_landed(struct gm_worker *worker)
{
	worker->remote_copies.n_in_flight--;
	gm_remote_copy_queue_go(worker);
}

void gm_remote_copy_queue_hurry(struct gm_worker *worker,
				struct gm_worker_session *session,
				const struct gm_buffer_entry *slot)
{
	struct gm_blocking_job *job = STAILQ_FIRST(
				       &worker->remote_copies.waiting),
			       *then;

	for (; job; job = then) {
		struct gm_async_op_job *e = (struct gm_async_op_job *)job;

		then = STAILQ_NEXT(job, entry);
		if (e->session == session &&
		    (!slot || e->slot == slot || e->stage == slot))
			hand_over(worker, e);
	}
}

struct gm_async_op_job *gm_remote_copy_queue_take_back(
	struct gm_worker *worker, const struct gm_worker_session *session,
	void (*done)(struct gm_blocking_job *, struct gm_worker *))
{
	struct gm_remote_copy_queue *f = &worker->remote_copies;
	struct gm_blocking_job *job;

	STAILQ_FOREACH(job, &f->waiting, entry)
	{
		struct gm_async_op_job *e = (struct gm_async_op_job *)job;

		if (e->session != session || job->done != done)
			continue;
		STAILQ_REMOVE(&f->waiting, job, gm_blocking_job, entry);
		f->n--;
		f->held = f->n && f->n_in_flight < GM_REMOTE_COPY_QUEUE_MOST;
		return e;
	}
	return NULL;
}

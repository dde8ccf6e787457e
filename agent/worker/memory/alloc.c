/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/memory/alloc.h"

#include <errno.h>

#include "agent/worker/control/async_op_private.h"
#include "agent/worker/queue/dependency.h"
#include "agent/worker/queue/heartbeat.h"
#include "gpumap.h"

static bool is_late(const struct gm_alloc_wait *wait)
{
	return wait->what.deadline_ns && gm_now_ns() >= wait->what.deadline_ns;
}

/* ---- waiting ALLOCs ---------------------------------------------------- */

/* Is memory being freed that would help an ALLOC refused with this error? */
static bool comes_back(const struct gm_worker *w,
		       const struct gm_worker_session *s, int rc)
{
	const struct gm_user_budget *budget = s->buffers.budget;

	if (rc == -EDQUOT)
		return budget && budget->n_leaving;
	if (rc != -ENOMEM)
		return false;
	for (budget = w->budgets; budget; budget = budget->next)
		if (budget->n_leaving)
			return true;
	return false;
}

/* Make the ALLOC wait. Returns false if the entry has to end instead. */
static bool enter(struct gm_worker *w, struct gm_worker_session *s, int rc)
{
	struct gm_alloc_wait *wait = &s->alloc;

	if (s->ended || s->departing || !comes_back(w, s, rc) || is_late(wait))
		return false;
	wait->on = true;
	TAILQ_INSERT_TAIL(&w->alloc_waits, wait, entry);
	return true;
}

static void leave(struct gm_worker *w, struct gm_alloc_wait *wait)
{
	wait->on = false;
	TAILQ_REMOVE(&w->alloc_waits, wait, entry);
}

void gm_alloc_leave(struct gm_worker *worker, struct gm_worker_session *session)
{
	if (session->alloc.on)
		leave(worker, &session->alloc);
}

/* ---- the allocation ---------------------------------------------------- */

static void work(struct gm_blocking_job *job, struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;
	struct gm_buffer **buffer = &e->slot->buffer;
	int rc = 1;

	if (!*buffer)
		e->rc = dev->backend->alloc(dev, e->session->id, e->bytes,
					    e->flags, buffer);
	if (e->rc < 0)
		return;
	if (dev->backend->populate)
		rc = dev->backend->populate(dev, *buffer);
	job->again = rc == 0;
	if (rc >= 0)
		return;
	dev->backend->free(dev, *buffer);
	*buffer = NULL;
	e->rc = rc;
}

static int allocated(struct gm_worker *w, struct gm_async_op_job *e)
{
	struct gm_worker_session *s = e->session;
	struct gm_buffer_entry *slot = e->slot;
	int rc;

	rc = gm_buffers_settle(&s->buffers, e->bytes,
			       e->rc < 0 ? 0 : slot->buffer->charged);
	if (e->rc < 0) {
		gm_async_op_abandon(s, slot);
		return e->rc;
	}
	gm_async_op_open_slot(w, s, slot);
	/* The charged size may exceed the quota by the device's rounding. */
	if (rc < 0)
		gm_buffers_free(&s->buffers, slot->handle,
				gm_async_op_settled(s));
	return rc;
}

static void done(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_worker_session *s = e->session;
	int rc = allocated(w, e);

	if (rc == 0 || !enter(w, s, rc))
		gm_async_op_ended(w, s, rc);
	gm_async_op_finished(w, e);
}

/* Returns 0, and done() ends the entry later; or the status. */
static int begin(struct gm_worker *w, struct gm_worker_session *s)
{
	const struct gm_async_op *what = &s->alloc.what;
	struct gm_buffer_table *buffers = &s->buffers;
	struct gm_buffer_entry *slot;
	struct gm_async_op_job *e;
	int rc;

	rc = gm_buffers_pay(buffers, what->bytes);
	if (rc < 0)
		return rc;
	rc = gm_buffers_add(buffers, what->handle, &slot);
	if (rc < 0) {
		gm_buffers_settle(buffers, what->bytes, 0);
		return rc;
	}
	e = gm_async_op_new(s,
			    what->bytes > GM_ALLOC_LARGE ? GM_CALL_ALLOC_LARGE
							 : GM_CALL_ALLOC,
			    work, done);
	if (!e) {
		gm_buffers_settle(buffers, what->bytes, 0);
		gm_async_op_abandon(s, slot);
		return -ENOMEM;
	}
	slot->flags = what->flags;
	e->job.kind = GM_BLOCKING_MAKES;
	e->slot = slot;
	e->bytes = what->bytes;
	e->flags = what->flags;
	if (!s->stalled)
		gm_async_op_stall(w, s);
	gm_async_op_hand_over(w, e);
	return 0;
}

int gm_alloc_begin(struct gm_worker *worker, struct gm_worker_session *session)
{
	int rc;

	session->alloc.session = session;
	session->alloc.what = session->pending;
	session->pending.handle = 0;
	if (!worker->dev->backend->alloc)
		return -EOPNOTSUPP;
	rc = begin(worker, session);
	if (rc == 0 || !enter(worker, session, rc))
		return rc;
	gm_async_op_stall(worker, session);
	return 0;
}

/* ALLOCs that keep waiting go behind the others, so their order stays. */
void gm_alloc_retry(struct gm_worker *worker)
{
	struct gm_alloc_wait *wait;
	uint32_t n = 0;

	TAILQ_FOREACH(wait, &worker->alloc_waits, entry)
	n++;
	while (n-- > 0 && (wait = TAILQ_FIRST(&worker->alloc_waits)) != NULL) {
		struct gm_worker_session *s = wait->session;
		int rc;

		leave(worker, wait);
		rc = s->ended ? -ECANCELED : begin(worker, s);
		if (rc < 0 && !enter(worker, s, rc))
			gm_async_op_ended(worker, s, rc);
	}
}

/* ---- deadlines --------------------------------------------------------- */

void gm_alloc_look(struct gm_worker *worker)
{
	struct gm_alloc_wait *wait = TAILQ_FIRST(&worker->alloc_waits), *next;

	for (; wait; wait = next) {
		next = TAILQ_NEXT(wait, entry);
		if (!is_late(wait))
			continue;
		leave(worker, wait);
		gm_async_op_ended(worker, wait->session, -ETIME);
	}
}

uint64_t gm_alloc_nap(const struct gm_worker *worker)
{
	uint64_t now_ns = 0, soonest_ns = GM_ALLOC_NAP_NS;
	const struct gm_alloc_wait *wait;

	TAILQ_FOREACH(wait, &worker->alloc_waits, entry)
	{
		uint64_t at_ns = wait->what.deadline_ns;

		if (at_ns == 0)
			continue;
		if (!now_ns)
			now_ns = gm_now_ns();
		at_ns = at_ns > now_ns ? at_ns - now_ns : GM_WAIT_LOOK_NS;
		if (at_ns < soonest_ns)
			soonest_ns = at_ns;
	}
	return now_ns ? soonest_ns : 0;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Polls sessions that get no turns: which of them the round waits for, and
 * which slices the device has ended. */

#include "agent/worker/queue/async_exec_private.h"

#include <errno.h>

#include "agent/worker/control/async_op.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/run_queue.h"

/* ---- rounds ------------------------------------------------------------ */

/* Would the session start more if it might have more in flight?  Then the
 * device is busy, and the next slice that ends lets the session continue. */
static bool is_backed(const struct gm_worker *w, struct gm_worker_session *s)
{
	const struct gm_async_execs *f = s->flights;
	GM_ACCESSES(&s->mapping);

	return w->n_in_flight && !s->wait.on && !s->stalled && !f->fenced &&
	       (f->starting || (f->n_slices >= gm_async_exec_slices_max(w) &&
				gm_ring_ready(&s->entries, GM_ENTRY_WORDS)));
}

bool gm_async_exec_is_owed(const struct gm_worker *worker,
			   const struct gm_row_user *user)
{
	struct gm_async_execs *f;

	if (!user && worker->n_in_flight && gm_load_is_owed(worker))
		return true;
	TAILQ_FOREACH(f, &worker->flying, entry)
	{
		struct gm_worker_session *s = f->session;
		struct gm_row_user *g = s->user;

		if (!g || s->ended || s->departing || (user && g != user))
			continue;
		if ((user ? gm_deficit_left(&s->deficit, g->round)
			  : gm_deficit_left(&g->deficit, worker->round)) &&
		    is_backed(worker, s))
			return true;
	}
	return false;
}

static bool is_held(const struct gm_worker *w, struct gm_worker_session *s)
{
	struct gm_row_user *user = s->user;

	return !gm_async_exec_has_ended(w, s) &&
	       ((!gm_deficit_left(&s->deficit, user->round) &&
		 gm_async_exec_is_owed(w, user)) ||
		(!gm_deficit_left(&user->deficit, w->round) &&
		 gm_async_exec_is_owed(w, NULL)));
}

bool gm_async_exec_hold(struct gm_worker *worker,
			struct gm_worker_session *session)
{
	struct gm_async_execs *f = session->flights;

	if (!gm_async_exec_due(worker, session) || !is_held(worker, session))
		return false;
	f->held = true;
	gm_async_exec_set_flying(worker, f);
	return true;
}

/* ---- sessions without turns -------------------------------------------- */

/* Collect the ended slices of a session that is no longer served, and free its
 * memory when none is left. */
static void let_go(struct gm_worker *w, struct gm_async_execs *f)
{
	struct gm_worker_session *s = f->session;

	gm_async_exec_land(w, s);
	gm_async_exec_leave(w, s);
	if (f->n_slices)
		return;
	if (s->departing)
		gm_async_ops_depart(w, s);
	else
		gm_async_ops_give_back(w, s);
}

void gm_async_exec_poll(struct gm_worker *worker)
{
	struct gm_worker *w = worker;
	struct gm_async_execs *f = TAILQ_FIRST(&w->flying), *next;
	uint64_t oldest_ns = 0, load_ns;

	for (; f; f = next) {
		struct gm_worker_session *s = f->session;

		next = TAILQ_NEXT(f, entry);
		if (f->n_slices &&
		    (!oldest_ns ||
		     gm_async_exec_oldest_slice(f)->since_ns < oldest_ns))
			oldest_ns = gm_async_exec_oldest_slice(f)->since_ns;
		if (s->ended || s->departing)
			let_go(w, f);
		else if (!s->active && !s->stalled && gm_async_exec_due(w, s) &&
			 !(f->held && is_held(w, s)))
			gm_run_queue_wake(w, s);
	}
	load_ns = gm_load_oldest_ns(&w->loader);
	if (load_ns && (!oldest_ns || load_ns < oldest_ns))
		oldest_ns = load_ns;
	gm_put(&w->journal->in_flight, oldest_ns);
}

bool gm_async_exec_wake(struct gm_worker *worker)
{
	uint32_t n = worker->n_active;

	gm_async_exec_poll(worker);
	return worker->n_active > n;
}

/* Ask the device for a notification.  Returns whether no slice has ended
 * meanwhile. */
static bool arm(struct gm_worker *w)
{
	int rc = w->dev->backend->arm ? w->dev->backend->arm(w->dev) : 0;

	if (rc == -ENOTRECOVERABLE)
		gm_io_events_failed(w);
	return rc == 0;
}

void gm_async_exec_notified(struct gm_worker *worker)
{
	gm_async_exec_poll(worker);
	/* With no slice in flight no later call would re-arm it.  A call that
	 * frees memory may have found the device's failure. */
	if (worker->n_in_flight == 0)
		arm(worker);
}

bool gm_async_exec_may_sleep(struct gm_worker *worker)
{
	gm_async_exec_poll(worker);
	if (worker->n_active)
		return false;
	return worker->n_in_flight == 0 || arm(worker);
}

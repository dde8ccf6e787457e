/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/run_queue.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/async_exec.h"
#include "shm/point.h"

/* Stored only if it changed, because a store takes the cache line from the
 * client. */
static void publish_cpu(struct gm_worker *w, struct gm_worker_session *s)
{
	GM_ACCESSES(&s->mapping);

	if (s->cpu == w->cpu)
		return;
	s->cpu = w->cpu;
	gm_put(&s->queue->cpu, w->cpu);
}

void gm_run_queue_cpu(struct gm_worker *worker)
{
	uint32_t cpu = (uint32_t)sched_getcpu() + 1;
	struct gm_row_user *g;
	struct gm_worker_session *s;

	if (cpu == worker->cpu)
		return;
	worker->cpu = cpu;
	TAILQ_FOREACH(g, &worker->users, entry)
	TAILQ_FOREACH(s, &g->active, turn)
	publish_cpu(worker, s);
}

static struct gm_row_user *find_user(const struct gm_worker *w, uint32_t uid)
{
	for (uint32_t i = 0; i < GM_JOURNAL_PLACES; i++) {
		struct gm_worker_session *s = w->place[i];

		if (s && s->user && s->uid == uid)
			return s->user;
	}
	return NULL;
}

int gm_run_queue_admit(struct gm_worker *worker,
		       struct gm_worker_session *session)
{
	struct gm_row_user *user = find_user(worker, session->uid);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return -ENOMEM;
		TAILQ_INIT(&user->active);
		user->uid = session->uid;
	}
	if (gm_buffers_open_budget(&session->buffers, &worker->budgets,
				   session->uid, session->quota) < 0) {
		if (user->n_sessions == 0)
			free(user);
		return -ENOMEM;
	}
	user->n_sessions++;
	session->user = user;
	return 0;
}

void gm_run_queue_dismiss(struct gm_worker *worker,
			  struct gm_worker_session *session)
{
	gm_run_queue_drop(worker, session);
	if (--session->user->n_sessions == 0)
		free(session->user);
	session->user = NULL;
}

void gm_run_queue_wake(struct gm_worker *worker,
		       struct gm_worker_session *session)
{
	struct gm_row_user *user = session->user;
	GM_ACCESSES(&session->mapping);

	/* Entries that came after DRAIN are left to the next worker. */
	if (worker->drained)
		return;
	if (session->active || session->ended || session->stalled ||
	    (session->wait.on && !session->flights))
		return;
	gm_ring_unpark(&session->queue->parked, &session->parked);
	publish_cpu(worker, session);
	session->active = true;
	session->since_ns = 0;
	session->last = worker->pass;
	if (TAILQ_EMPTY(&user->active))
		TAILQ_INSERT_TAIL(&worker->users, user, entry);
	TAILQ_INSERT_TAIL(&user->active, session, turn);
	worker->n_active++;
}

void gm_run_queue_rotate(struct gm_worker_session *session)
{
	struct gm_row_user *user = session->user;

	if (!TAILQ_NEXT(session, turn))
		return;
	TAILQ_REMOVE(&user->active, session, turn);
	TAILQ_INSERT_TAIL(&user->active, session, turn);
}

void gm_run_queue_drop(struct gm_worker *worker,
		       struct gm_worker_session *session)
{
	struct gm_row_user *user = session->user;

	if (!session->active)
		return;
	gm_run_queue_found(worker, session, false);
	session->active = false;
	TAILQ_REMOVE(&user->active, session, turn);
	if (TAILQ_EMPTY(&user->active))
		TAILQ_REMOVE(&worker->users, user, entry);
	worker->n_active--;
}

/* Keep the session awake: its ring was polled too long ago. */
static bool stay(struct gm_worker *w, struct gm_worker_session *s)
{
	gm_run_queue_found(w, s, false);
	s->since_ns = 0;
	return false;
}

bool gm_run_queue_park(struct gm_worker *worker,
		       struct gm_worker_session *session)
{
	gm_a64 *parks = &worker->journal->parks;
	GM_ACCESSES(&session->mapping);

	if (session->flights && (gm_async_exec_full(worker, session) ||
				 gm_async_exec_hold(worker, session))) {
		gm_run_queue_drop(worker, session);
		return true;
	}
	/* The session's request may have ended since the session was found
	 * idle. Neither the doorbell nor the device reports that again. */
	if (session->flights && gm_async_exec_due(worker, session))
		return stay(worker, session);
	gm_ring_park(&session->queue->parked, &session->parked);
	GM_POINT("worker_parked");
	if (gm_ring_recheck(&session->entries, GM_ENTRY_WORDS) &&
	    !worker->drained) {
		gm_ring_unpark(&session->queue->parked, &session->parked);
		return stay(worker, session);
	}
	gm_run_queue_drop(worker, session);
	gm_put(parks, gm_get(parks) + 1);
	return true;
}

void gm_run_queue_park_anew(struct gm_worker *worker,
			    struct gm_worker_session *session)
{
	GM_ACCESSES(&session->mapping);

	if (session->active || session->ended || session->stalled ||
	    session->wait.on)
		return;
	gm_ring_unpark(&session->queue->parked, &session->parked);
	gm_ring_park(&session->queue->parked, &session->parked);
	if (gm_ring_recheck(&session->entries, GM_ENTRY_WORDS))
		gm_run_queue_wake(worker, session);
}

static struct gm_worker_session *oldest_idle(const struct gm_worker *w)
{
	struct gm_worker_session *oldest = NULL, *s;
	struct gm_row_user *g;

	TAILQ_FOREACH(g, &w->users, entry)
	TAILQ_FOREACH(s, &g->active, turn)
	{
		if (s->idle && (!oldest || s->last < oldest->last))
			oldest = s;
	}
	return oldest;
}

void gm_run_queue_trim(struct gm_worker *worker)
{
	while (worker->n_idle > GM_ROSTER_HOT)
		gm_run_queue_park(worker, oldest_idle(worker));
}

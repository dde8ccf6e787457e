/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/roster.h"

#include <sched.h>

#include "shm/point.h"

/* Stored when it changes only: a store takes the line from the client. */
static void publish_cpu(struct gm_worker *w, struct gm_session *s)
{
	if (s->cpu == w->cpu)
		return;
	s->cpu = w->cpu;
	gm_put(&s->queue->cpu, w->cpu);
}

void gm_roster_cpu(struct gm_worker *worker)
{
	uint32_t cpu = (uint32_t)sched_getcpu() + 1;

	if (cpu == worker->cpu)
		return;
	worker->cpu = cpu;
	for (uint32_t i = 0; i < worker->n_active; i++)
		publish_cpu(worker, worker->active[i]);
}

void gm_roster_wake(struct gm_worker *worker, struct gm_session *session)
{
	if (session->active || session->ended)
		return;
	gm_ring_unpark(&session->queue->parked, &session->parked);
	publish_cpu(worker, session);
	session->active = true;
	session->since_ns = 0;
	session->last = worker->pass;
	worker->active[worker->n_active++] = session;
}

void gm_roster_drop(struct gm_worker *worker, struct gm_session *session)
{
	uint32_t i = 0;

	if (!session->active)
		return;
	gm_roster_found(worker, session, false);
	session->active = false;
	while (worker->active[i] != session)
		i++;
	/* The order is whose turn comes next: keep it. */
	for (worker->n_active--; i < worker->n_active; i++)
		worker->active[i] = worker->active[i + 1];
}

bool gm_roster_park(struct gm_worker *worker, struct gm_session *session)
{
	gm_a64 *parks = &worker->journal->parks;

	gm_ring_park(&session->queue->parked, &session->parked);
	GM_POINT("worker_parked");
	if (gm_ring_recheck(&session->entries, GM_ENTRY_WORDS)) {
		gm_ring_unpark(&session->queue->parked, &session->parked);
		gm_roster_found(worker, session, false);
		session->since_ns = 0;
		return false;
	}
	gm_roster_drop(worker, session);
	gm_put(parks, gm_get(parks) + 1);
	return true;
}

void gm_roster_park_anew(struct gm_worker *worker, struct gm_session *session)
{
	if (session->active || session->ended)
		return;
	gm_ring_unpark(&session->queue->parked, &session->parked);
	gm_ring_park(&session->queue->parked, &session->parked);
	if (gm_ring_recheck(&session->entries, GM_ENTRY_WORDS))
		gm_roster_wake(worker, session);
}

void gm_roster_trim(struct gm_worker *worker)
{
	while (worker->n_idle > GM_ROSTER_HOT) {
		struct gm_session *oldest = NULL;

		for (uint32_t i = 0; i < worker->n_active; i++) {
			struct gm_session *s = worker->active[i];

			if (s->idle && (!oldest || s->last < oldest->last))
				oldest = s;
		}
		gm_roster_park(worker, oldest);
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/cliques.h"

#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/workers/demand.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/journal.h"

static struct gm_device *device_of(const struct gm_session *session,
				   uint32_t row)
{
	return session->server->d->devices->of[row];
}

static bool is_any_card_drained(const struct gm_devices *devices)
{
	bool is = false;

	for (uint32_t row = 0; row < devices->n && !is; row++)
		is = gm_device_is_whole_card(devices->of[row]) &&
		     devices->of[row]->bars & GM_BAR_DRAIN;
	return is;
}

bool gm_cliques_may_meet(const struct gm_session *session, const uint32_t *rows,
			 uint32_t n)
{
	const struct gm_daemon *d = session->server->d;

	if (d->config->cuda_nccl == GM_CONFIG_NCCL_NO || n < 2 ||
	    is_any_card_drained(d->devices))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct gm_device *device = device_of(session, rows[i]);

		if (!gm_device_is_whole_card(device) ||
		    device->n_cliques >= GM_JOURNAL_NCCL_GROUPS ||
		    (device->n_cliques &&
		     device->clique_session != session->id))
			return false;
	}
	return true;
}

void gm_cliques_take(const struct gm_session *session, uint32_t row)
{
	struct gm_device *device = device_of(session, row);

	device->clique_session = session->id;
	device->n_cliques++;
}

void gm_cliques_give_back(const struct gm_session *session, uint32_t row)
{
	device_of(session, row)->n_cliques--;
}

/* ---- cards that a worker has open ---------------------------------------- */

/* The first worker of another row that has this card open, or NULL. */
static const struct gm_worker_process *user_of(const struct gm_daemon *d,
					       uint32_t row)
{
	const struct gm_worker_process *worker;

	if (!d->supervisor || !gm_device_is_whole_card(d->devices->of[row]))
		return NULL;
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		if (worker->has_cards && worker->row != row &&
		    gm_worker_process_has_child(worker))
			break;
	}
	return worker;
}

static bool uses_row(const struct gm_daemon *d, uint32_t row)
{
	return user_of(d, row) != NULL;
}

static void explain_use(const struct gm_daemon *d, uint32_t row,
			char ret_why[GM_WHY_BYTES])
{
	const struct gm_worker_process *worker = user_of(d, row);

	if (worker)
		gm_why(ret_why, 0,
		       "the worker of row %u (pid %d) has every card open, by "
		       "NCCL, until its sessions end: gpumapctl sessions",
		       worker->row, (int)worker->child.pid);
}

static void row_closing(struct gm_daemon *d, uint32_t row)
{
	struct gm_worker_process *worker;

	if (!(d->devices->of[row]->bars & GM_BAR_DRAIN) || !user_of(d, row))
		return;
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		if (!worker->has_cards)
			continue;
		worker->ends_unneeded = true;
		if (!gm_worker_process_is_needed(worker))
			gm_worker_child_unneeded(worker);
	}
}

/* A row that is drained may have waited for that alone. */
static void worker_gone(struct gm_worker_process *gone, bool well)
{
	struct gm_supervisor *s = gone->d->supervisor;
	struct gm_worker_process *worker;

	(void)well;
	if (!gone->has_cards)
		return;
	gone->has_cards = false;
	TAILQ_FOREACH(worker, &s->all, entry)
	{
		if (worker != gone && gm_worker_process_is_shown(worker))
			gm_demand_closed(worker);
	}
}

const struct gm_worker_user gm_clique_worker_user = {
	.uses_row = uses_row,
	.explain_use = explain_use,
	.worker_gone = worker_gone,
	.row_closing = row_closing,
};

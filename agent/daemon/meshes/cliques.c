/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/cliques.h"

#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/workers/supervisor.h"
#include "shm/journal.h"

static struct gm_device *device_of(const struct gm_session *session,
				   uint32_t row)
{
	return session->server->d->devices->of[row];
}

bool gm_cliques_are_barred(const struct gm_devices *devices)
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
	    gm_cliques_are_barred(d->devices))
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

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/open_cards.h"

#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/meshes/comms.h"
#include "agent/daemon/workers/supervisor.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_process.h"

/* The first worker of another row that has this card open, or NULL. */
static const struct gm_worker_process *user_of(const struct gm_daemon *d,
					       uint32_t row)
{
	const struct gm_worker_process *worker;

	if (!d->supervisor || !gm_device_is_opened(d->devices->of[row]))
		return NULL;
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		if (gm_worker_child_has_cards(worker) && worker->row != row)
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
	const char *until = "it ends";

	if (!worker)
		return;
	if (worker->state == GM_PROCESS_STUCK)
		until = "it ends, which not even SIGKILL makes it do";
	else if (gm_worker_process_has_attachments(worker))
		until = "its sessions end: gpumapctl sessions";
	else if (gm_worker_users_keeps_worker(worker))
		until = "its shares are released: gpumapctl shares";
	gm_why(ret_why, 0,
	       "the worker of row %u (pid %d) has every card open, by NCCL, "
	       "until %s",
	       worker->row, (int)worker->child.pid, until);
}

static void row_closing(struct gm_daemon *d, uint32_t row)
{
	struct gm_worker_process *worker;

	if (!d->supervisor || !(d->devices->of[row]->bars & GM_BAR_DRAIN) ||
	    !gm_device_is_opened(d->devices->of[row]))
		return;
	gm_comms_end_meetings(d, row);
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		if (gm_worker_child_has_cards(worker) &&
		    !gm_worker_process_is_needed(worker))
			gm_worker_child_unneeded(worker);
	}
}

const struct gm_worker_user gm_open_cards_worker_user = {
	.uses_row = uses_row,
	.explain_use = explain_use,
	.row_closing = row_closing,
};

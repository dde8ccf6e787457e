/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/demand.h"

#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_users.h"

/* A row without a worker, such as that of a card that is split, may be used by
 * others' all the same. */
void gm_demand_closed(struct gm_daemon *d, uint32_t row)
{
	struct gm_device *device = d->devices->of[row];
	const struct gm_worker_process *own = d->supervisor->rows.workers[row];
	void (*closed)(struct gm_daemon * d, uint32_t row) = device->closed;

	if (!closed ||
	    (own && (own->state != GM_PROCESS_BARRED ||
		     gm_standby_runs(&own->standby))) ||
	    gm_worker_groups_running(d->supervisor, row) ||
	    gm_worker_users_uses_row(d, row))
		return;
	device->closed = NULL;
	closed(d, row);
}

/* ---- its end ----------------------------------------------------------- */

static bool is_busy(gm_a64 *beat)
{
	return gm_get(beat) >> 56 != GM_CALL_IDLE;
}

static bool is_any_busy(struct gm_journal *signs)
{
	bool busy = is_busy(&signs->beat) || is_busy(&signs->slow);

	for (uint32_t i = 0; i < GM_JOURNAL_NCCL_GROUPS; i++)
		busy |= is_busy(&signs->clique[i]);
	return busy;
}

/* Has it done anything since the last look, or is it at something now?  How
 * long that may take is not ours to say, see watchdog.c. */
static bool has_worked(struct gm_worker_process *worker)
{
	struct gm_journal *signs = worker->journal;
	uint64_t before = worker->completed_before;

	worker->completed_before = gm_get(&signs->completed);
	return worker->completed_before != before || is_any_busy(signs) ||
	       gm_get(&signs->in_flight) != 0;
}

static void wait_for_end(struct gm_worker_process *worker)
{
	gm_timer_set(worker->d->loop, &worker->timer,
		     gm_loop_now() + worker->d->config->drain_row_ns);
}

void gm_demand_end(struct gm_worker_process *worker)
{
	worker->drain_requested = true;
	gm_timer_stop(worker->d->loop, &worker->idle);
	gm_attachments_send_drain(worker);
	if (worker->state != GM_PROCESS_SERVING || worker->socket.fd < 0)
		return; /* another limit runs */
	has_worked(worker);
	wait_for_end(worker);
}

/* ---- what it lends until then ------------------------------------------- */

static void let_go(struct gm_worker_process *worker)
{
	worker->may_leave = true;
	wait_for_end(worker);
	gm_attachments_flush(worker);
}

static bool is_lending(const struct gm_worker_process *worker)
{
	return worker->state == GM_PROCESS_SERVING && worker->is_drained &&
	       !worker->may_leave;
}

void gm_demand_part(struct gm_timer *timer)
{
	struct gm_supervisor *s =
		gm_owner(timer, struct gm_supervisor, parting);
	struct gm_worker_process *worker;

	TAILQ_FOREACH(worker, &s->all, entry)
	{
		if (is_lending(worker) &&
		    !gm_worker_users_awaits_worker(worker))
			let_go(worker);
	}
	for (uint32_t row = 0; row < s->d->devices->n; row++)
		gm_demand_closed(s->d, row);
}

void gm_demand_recheck(struct gm_supervisor *s)
{
	if (s)
		gm_timer_set(s->d->loop, &s->parting, gm_loop_now());
}

void gm_demand_drained(struct gm_worker_process *worker)
{
	if (worker->is_recovery || !worker->drain_sent || worker->is_drained ||
	    worker->state != GM_PROCESS_SERVING)
		return;
	worker->is_drained = true;
	wait_for_end(worker);
	if (gm_worker_users_awaits_worker(worker))
		gm_log(GM_LOG_INFO, "worker_lends", "row=%u%s pid=%d",
		       worker->row, worker->of, (int)worker->child.pid);
	gm_demand_recheck(worker->d->supervisor);
}

void gm_demand_overdue(struct gm_worker_process *worker)
{
	if (is_lending(worker)) {
		gm_log(GM_LOG_WARNING, "lent_long", "row=%u%s pid=%d",
		       worker->row, worker->of, (int)worker->child.pid);
		let_go(worker);
	} else if (has_worked(worker)) {
		wait_for_end(worker);
	} else {
		gm_worker_child_kill(worker, "it did not end when asked");
	}
}

void gm_demand_idle(struct gm_timer *timer)
{
	struct gm_worker_process *worker =
		gm_owner(timer, struct gm_worker_process, idle);

	if (worker->state != GM_PROCESS_SERVING ||
	    gm_worker_process_is_needed(worker))
		return;
	if (gm_worker_users_keeps_worker(worker)) {
		gm_worker_child_unneeded(worker); /* look again */
		return;
	}
	gm_log(GM_LOG_INFO, "worker_idle", "row=%u%s pid=%d", worker->row,
	       worker->of, (int)worker->child.pid);
	gm_standby_end(worker);
	gm_demand_end(worker);
}

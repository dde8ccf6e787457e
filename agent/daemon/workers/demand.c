/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Whether a row is to have a worker: somebody has a seat there, nobody has had
 * one for long, its device may not be used.
 */

#include "agent/common/log.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/workers/worker_process.h"
#include "agent/daemon/workers/worker_users.h"

void gm_need_closed(struct gm_keeper *keeper)
{
	const struct gm_supervisor *s = keeper->d->supervisor;
	struct gm_keeper *own = s->rows.keepers[keeper->row];
	void (*closed)(struct gm_daemon * d, uint32_t row);

	if (!own || !own->closed || own->state != GM_KEEPER_BARRED ||
	    gm_spare_runs(&own->spare) || gm_crews_running(s, keeper->row) ||
	    gm_worker_users_uses_row(keeper->d, keeper->row))
		return;
	closed = own->closed;
	own->closed = NULL;
	closed(own->d, own->row);
}

void gm_need_begins(struct gm_keeper *keeper)
{
	gm_timer_stop(&keeper->d->loop, &keeper->idle);
	if (keeper->state == GM_KEEPER_IDLE)
		gm_keeper_rest(keeper);
}

void gm_need_ends(struct gm_keeper *keeper)
{
	uint64_t idle_ns =
		gm_keeper_is_shown(keeper) ? keeper->d->config.cuda_idle_ns : 0;

	if (keeper->on_need && keeper->state == GM_KEEPER_SERVING)
		gm_timer_set(&keeper->d->loop, &keeper->idle,
			     gm_loop_now() + idle_ns);
}

/* ---- its end ----------------------------------------------------------- */

static bool is_busy(gm_a64 *beat)
{
	return gm_get(beat) >> 56 != GM_CALL_IDLE;
}

static bool is_any_busy(struct gm_journal *signs)
{
	bool busy = is_busy(&signs->beat) || is_busy(&signs->slow);

	for (uint32_t i = 0; i < GM_JOURNAL_CLIQUES; i++)
		busy |= is_busy(&signs->clique[i]);
	return busy;
}

/* Has it done anything since the last look, or is it at something now?  How
 * long that may take is not ours to say, see watchdog.c. */
static bool has_worked(struct gm_keeper *keeper)
{
	struct gm_journal *signs = keeper->journal;
	uint64_t before = keeper->completed_before;

	keeper->completed_before = gm_get(&signs->completed);
	return keeper->completed_before != before || is_any_busy(signs) ||
	       gm_get(&signs->aloft) != 0;
}

static void wait_for_end(struct gm_keeper *keeper)
{
	gm_timer_set(&keeper->d->loop, &keeper->timer,
		     gm_loop_now() + keeper->d->config.drain_row_ns);
}

void gm_need_end(struct gm_keeper *keeper)
{
	keeper->wants_end = true;
	gm_timer_stop(&keeper->d->loop, &keeper->idle);
	gm_seats_tell_end(keeper);
	if (keeper->state != GM_KEEPER_SERVING || keeper->socket.fd < 0)
		return; /* another limit runs */
	has_worked(keeper);
	wait_for_end(keeper);
}

/* ---- what it lends until then ------------------------------------------- */

void gm_need_tell_leave(struct gm_keeper *keeper)
{
	struct gm_wire wire = { .type = GM_WIRE_LEAVE };

	if (keeper->may_leave && !keeper->told_leave &&
	    keeper->socket.fd >= 0 && gm_seats_say(keeper, &wire, NULL, 0) == 0)
		keeper->told_leave = true;
}

static void let_go(struct gm_keeper *keeper)
{
	keeper->may_leave = true;
	wait_for_end(keeper);
	gm_seats_pump(keeper);
}

static bool is_lending(const struct gm_keeper *keeper)
{
	return keeper->state == GM_KEEPER_SERVING && keeper->is_drained &&
	       !keeper->may_leave;
}

void gm_need_part(struct gm_timer *timer)
{
	struct gm_supervisor *s =
		gm_owner(timer, struct gm_supervisor, parting);
	struct gm_keeper *keeper;

	TAILQ_FOREACH(keeper, &s->all, entry)
	{
		if (is_lending(keeper) &&
		    !gm_worker_users_awaits_worker(keeper))
			let_go(keeper);
	}
}

void gm_need_look(struct gm_supervisor *s)
{
	if (s)
		gm_timer_set(&s->d->loop, &s->parting, gm_loop_now());
}

void gm_need_drained(struct gm_keeper *keeper)
{
	if (keeper->is_undertaker || !keeper->told_end || keeper->is_drained ||
	    keeper->state != GM_KEEPER_SERVING)
		return;
	keeper->is_drained = true;
	wait_for_end(keeper);
	if (gm_worker_users_awaits_worker(keeper))
		gm_log(GM_LOG_INFO, "worker_lends", "row=%u%s pid=%d",
		       keeper->row, keeper->of, (int)keeper->child.pid);
	gm_need_look(keeper->d->supervisor);
}

void gm_need_overdue(struct gm_keeper *keeper)
{
	if (is_lending(keeper)) {
		gm_log(GM_LOG_WARNING, "lent_long", "row=%u%s pid=%d",
		       keeper->row, keeper->of, (int)keeper->child.pid);
		let_go(keeper);
	} else if (has_worked(keeper)) {
		wait_for_end(keeper);
	} else {
		gm_keeper_kill(keeper, "it did not end when asked");
	}
}

void gm_need_idle(struct gm_timer *timer)
{
	struct gm_keeper *keeper = gm_owner(timer, struct gm_keeper, idle);

	if (keeper->state != GM_KEEPER_SERVING || gm_keeper_is_needed(keeper))
		return;
	if (gm_worker_users_keeps_worker(keeper)) {
		gm_need_ends(keeper); /* look again */
		return;
	}
	gm_log(GM_LOG_INFO, "worker_idle", "row=%u%s pid=%d", keeper->row,
	       keeper->of, (int)keeper->child.pid);
	gm_spare_end(keeper);
	gm_need_end(keeper);
}

void gm_need_bar(struct gm_keeper *keeper, bool finish, const char *why)
{
	gm_spare_end(keeper);
	gm_seats_refuse_newcomers(keeper, why);
	switch (keeper->state) {
	case GM_KEEPER_IDLE:
	case GM_KEEPER_RESTING:
		gm_keeper_rest(keeper);
		break;
	case GM_KEEPER_BARRED:
		gm_need_closed(keeper);
		break;
	case GM_KEEPER_STARTING:
	case GM_KEEPER_SERVING:
		if (finish)
			gm_need_end(keeper);
		else
			gm_keeper_kill(keeper, why);
		break;
	default: /* what comes next is that */
		break;
	}
}

void gm_need_unbar(struct gm_keeper *keeper)
{
	keeper->closed = NULL;
	if (keeper->state == GM_KEEPER_BARRED)
		gm_keeper_rest(keeper);
	else if (keeper->state == GM_KEEPER_STUCK)
		gm_death_stuck(keeper);
}

void gm_need_spare_gone(struct gm_keeper *keeper)
{
	gm_need_closed(keeper);
}

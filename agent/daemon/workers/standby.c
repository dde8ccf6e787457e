/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/standby.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/workers/exec.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/point.h"

#define MS         UINT64_C(1000000)
#define SECOND     UINT64_C(1000000000)

#define HANG_UP_NS (2 * SECOND)  /* from the closed socket to SIGKILL */
#define REST_NS    (1 * SECOND)  /* after a death, times 4 for each more */
#define REST_MAX   (60 * SECOND) /* cuInit serialises the whole machine */

static void start(struct gm_worker_process *worker);

static void enter(struct gm_worker_process *worker, enum gm_standby_state state,
		  uint64_t limit_ns)
{
	struct gm_standby *standby = &worker->standby;

	standby->state = state;
	standby->since_ns = gm_loop_now();
	if (limit_ns)
		gm_timer_set(worker->d->loop, &standby->timer,
			     standby->since_ns + limit_ns);
	else
		gm_timer_stop(worker->d->loop, &standby->timer);
}

static void rest(struct gm_worker_process *worker)
{
	enter(worker, GM_STANDBY_RESTING,
	      gm_child_rest(REST_NS, 4, worker->standby.deaths, REST_MAX));
}

static void end(struct gm_worker_process *worker, const char *why)
{
	struct gm_standby *standby = &worker->standby;

	if (why && !standby->why[0])
		snprintf(standby->why, sizeof(standby->why), "%s", why);
	enter(worker, GM_STANDBY_ENDING, 0);
	gm_child_hang_up(&standby->child, HANG_UP_NS,
			 "it did not end by itself");
}

/* A standby sends at most two messages: FAILED or STANDBY. */
static bool on_message(struct gm_child *child, void *record)
{
	struct gm_worker_process *worker =
		gm_owner(child, struct gm_worker_process, standby.child);
	struct gm_standby *standby = &worker->standby;
	struct gm_wire *wire = record;

	wire->text[sizeof(wire->text) - 1] = '\0';
	if (wire->type == GM_WIRE_FAILED && !standby->why[0]) {
		snprintf(standby->why, sizeof(standby->why), "%.*s",
			 (int)sizeof(standby->why) - 1, wire->text);
		standby->code = wire->code;
	} else if (wire->type == GM_WIRE_STANDBY &&
		   standby->state == GM_STANDBY_STARTING) {
		gm_log(GM_LOG_INFO, "standby_ready",
		       "row=%u pid=%d after_ms=%" PRIu64, worker->row,
		       (int)child->process.pid,
		       (gm_loop_now() - standby->since_ns) / MS);
		standby->deaths = 0;
		enter(worker, GM_STANDBY_STANDBY, 0);
		GM_POINT("standby_ready");
	}
	return true;
}

static void on_ended(struct gm_child *child, const char *how, int status)
{
	struct gm_worker_process *worker =
		gm_owner(child, struct gm_worker_process, standby.child);
	struct gm_standby *standby = &worker->standby;
	bool well = standby->drain_sent && !child->why[0];

	(void)status;
	gm_log(well ? GM_LOG_INFO : GM_LOG_WARNING,
	       well ? "standby_ended" : "standby_died",
	       "row=%u pid=%d code=%d reason=%s", worker->row,
	       (int)child->process.pid, standby->code,
	       gm_quote(standby->why[0] ? standby->why : how).text);
	standby->deaths += !well;
	if (!standby->wanted)
		enter(worker, GM_STANDBY_NONE, 0);
	else if (well)
		start(worker);
	else
		rest(worker);
	standby->gone(worker);
}

static void on_stuck(struct gm_child *child)
{
	struct gm_worker_process *worker =
		gm_owner(child, struct gm_worker_process, standby.child);

	gm_log(GM_LOG_ERROR, "standby_stuck", "row=%u pid=%d", worker->row,
	       (int)child->process.pid);
}

static const struct gm_child_kind kind = {
	.record_bytes = sizeof(struct gm_wire),
	.said = on_message,
	.ended = on_ended,
	.stuck = on_stuck,
};

static void timer_fired(struct gm_timer *timer)
{
	struct gm_worker_process *worker =
		gm_owner(timer, struct gm_worker_process, standby.timer);

	if (worker->standby.state == GM_STANDBY_RESTING)
		start(worker);
	else if (worker->standby.state == GM_STANDBY_STARTING)
		end(worker, "it did not get ready in time");
}

static void start(struct gm_worker_process *worker)
{
	struct gm_standby *standby = &worker->standby;
	struct gm_spawned process;
	int error = gm_worker_exec(worker, GM_EXEC_STANDBY, &process);

	if (error == 0) {
		standby->drain_sent = false;
		standby->code = 0;
		standby->why[0] = '\0';
		error = gm_child_adopt(&standby->child, worker->d->loop, &kind,
				       &process);
	}
	if (error) {
		gm_log(GM_LOG_WARNING, "standby_failed", "row=%u error=%s",
		       worker->row, gm_quote(strerror(-error)).text);
		standby->deaths++;
		rest(worker);
		return;
	}
	gm_log(GM_LOG_INFO, "standby_started", "row=%u pid=%d", worker->row,
	       (int)process.pid);
	enter(worker, GM_STANDBY_STARTING, gm_worker_exec_limit(worker));
}

void gm_standby_init(struct gm_standby *standby,
		     void (*gone)(struct gm_worker_process *worker))
{
	standby->gone = gone;
	standby->timer.fired = timer_fired;
}

void gm_standby_want(struct gm_worker_process *worker)
{
	worker->standby.wanted = true;
	if (worker->standby.state == GM_STANDBY_NONE)
		start(worker);
}

int gm_standby_take(struct gm_worker_process *worker,
		    struct gm_spawned *ret_process)
{
	const struct gm_wire go = { .type = GM_WIRE_GO };
	struct gm_standby *standby = &worker->standby;

	if (standby->state != GM_STANDBY_STARTING &&
	    standby->state != GM_STANDBY_STANDBY)
		return -ENOENT;
	if (gm_child_send(&standby->child, &go, sizeof(go)) != 0) {
		end(worker, "it does not listen");
		return -ENOENT;
	}
	gm_log(GM_LOG_INFO, "standby_taken",
	       "row=%u pid=%d standby=%d age_ms=%" PRIu64, worker->row,
	       (int)standby->child.process.pid,
	       standby->state == GM_STANDBY_STANDBY,
	       (gm_loop_now() - standby->since_ns) / MS);
	standby->wanted = false;
	enter(worker, GM_STANDBY_NONE, 0);
	*ret_process = gm_child_hand_over(&standby->child);
	return 0;
}

void gm_standby_end(struct gm_worker_process *worker)
{
	struct gm_standby *standby = &worker->standby;

	standby->wanted = false;
	if (standby->state == GM_STANDBY_RESTING)
		enter(worker, GM_STANDBY_NONE, 0);
	else if (standby->state == GM_STANDBY_STARTING ||
		 standby->state == GM_STANDBY_STANDBY) {
		standby->drain_sent = true;
		end(worker, NULL);
	}
}

void gm_standby_free(struct gm_worker_process *worker)
{
	struct gm_standby *standby = &worker->standby;

	gm_timer_stop(worker->d->loop, &standby->timer);
	gm_child_drop(&standby->child);
	standby->state = GM_STANDBY_NONE;
}

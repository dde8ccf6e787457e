/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/workers/worker_process.h"
#include "agent/daemon/workers/worker_users.h"

#define TICK_NS     UINT64_C(1000000000)
#define LAST_WAIT_S 1 /* for the exits of those killed at the end */

/* Told to workers only when it moves: their line stays theirs. */
static void limit_spinning(struct gm_supervisor *s, uint64_t now)
{
	uint32_t limit = gm_spin_limit(&s->spin, now);

	if (s->d->config.spin_limit != GM_CONFIG_SPIN_AUTO)
		limit = s->d->config.spin_limit;
	if (gm_get(&s->rows.commons->spin_limit) == limit)
		return;
	gm_put(&s->rows.commons->spin_limit, limit);
	gm_log(GM_LOG_INFO, "spin_limit", "workers=%u", limit);
}

static void tick(struct gm_timer *timer)
{
	struct gm_supervisor *s = gm_owner(timer, struct gm_supervisor, tick);
	uint64_t now = gm_loop_now();
	struct gm_keeper *keeper;

	limit_spinning(s, now);
	TAILQ_FOREACH(keeper, &s->all, entry)
	gm_patience_look(keeper, now);
	gm_crews_look(s, now);
	gm_spawn_tidy();
	gm_timer_set(&s->d->loop, &s->tick, now + TICK_NS);
}

/* A driver that finds an MPS daemon joins it, and shares its faults with
 * strangers: here it finds none. */
static int open_no_mps(struct gm_supervisor *s)
{
	const struct gm_daemon *d = s->d;
	int n;

	if (s->no_mps[0])
		return 0;
	n = snprintf(s->no_mps, sizeof(s->no_mps), "%s/%s.no-mps",
		     d->runtime_dir, d->instance);
	if (n < 0 || (size_t)n >= sizeof(s->no_mps)) {
		s->no_mps[0] = '\0';
		return -ENAMETOOLONG;
	}
	return mkdir(s->no_mps, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

static int open_keeper(struct gm_supervisor *s, uint32_t row)
{
	int error = 0;

	if (s->d->devices.of[row]->facts.kind == GPUMAP_DEVICE_CUDA)
		error = open_no_mps(s);
	return error ? error : gm_keeper_make(s->d, &s->rows, row);
}

static int open_keepers(struct gm_supervisor *s)
{
	const struct gm_devices *devices = &s->d->devices;

	for (uint32_t row = 0; row < devices->n; row++) {
		int error;

		if (!devices->of[row]->present ||
		    !gm_device_serves(devices->of[row]))
			continue;
		error = open_keeper(s, row);
		if (error)
			return error;
	}
	return 0;
}

int gm_supervisor_start(struct gm_daemon *d)
{
	struct gm_supervisor *s = calloc(1, sizeof(*s));
	int error = s ? 0 : -ENOMEM;
	struct gm_keeper *keeper;

	if (s) {
		d->supervisor = s;
		s->d = d;
		s->rows.commons_fd = -1;
		TAILQ_INIT(&s->programs);
		TAILQ_INIT(&s->all);
		s->tick.fired = tick;
		s->parting.fired = gm_need_part;
		signal(SIGCHLD, SIG_DFL); /* or nobody could be waited for */
		error = gm_crew_open(&s->rows);
	}
	if (error == 0)
		error = open_keepers(s);
	gm_crews_sweep(d);
	if (error) {
		gm_log(GM_LOG_ERROR, "supervisor_failed", "error=%s",
		       gm_quote(strerror(-error)).text);
		gm_supervisor_exit(d);
		return error;
	}

	gm_spin_init(&s->spin, NULL,
		     (uint32_t)gm_idset_count(&d->allowed.cpus));
	tick(&s->tick);
	TAILQ_FOREACH(keeper, &s->all, entry)
	gm_keeper_start(keeper);
	return 0;
}

int gm_supervisor_admit(struct gm_daemon *d, uint32_t row)
{
	struct gm_supervisor *s = d->supervisor;
	int error;

	if (!s || s->rows.keepers[row]) /* it will be met at the start */
		return 0;
	error = s->draining ? -ESHUTDOWN : open_keeper(s, row);
	if (error == 0) {
		gm_keeper_start(s->rows.keepers[row]);
		return 0;
	}
	gm_log(GM_LOG_ERROR, "not_admitted", "row=%u error=%s", row,
	       gm_quote(strerror(-error)).text);
	gm_keeper_free(s->rows.keepers[row]);
	s->rows.keepers[row] = NULL;
	return error;
}

void gm_supervisor_row_reused(struct gm_daemon *d, uint32_t row)
{
	if (!d->supervisor)
		return;
	gm_crews_forget(d->supervisor, row);
	gm_keeper_free(d->supervisor->rows.keepers[row]);
	d->supervisor->rows.keepers[row] = NULL;
}

static struct gm_keeper *keeper_of(const struct gm_daemon *d, uint32_t row)
{
	return d->supervisor ? d->supervisor->rows.keepers[row] : NULL;
}

static bool is_quiet(const struct gm_keeper *keeper)
{
	return !keeper ||
	       ((keeper->state == GM_KEEPER_BARRED ||
		 keeper->state == GM_KEEPER_IDLE) &&
		!gm_keeper_has_child(keeper) &&
		!gm_spare_runs(&keeper->spare) && !gm_keeper_has_seats(keeper));
}

bool gm_supervisor_row_used(const struct gm_daemon *d, uint32_t row)
{
	return d->supervisor && (!is_quiet(keeper_of(d, row)) ||
				 gm_crews_have(d->supervisor, row));
}

void gm_supervisor_bar(struct gm_daemon *d, uint32_t row, uint32_t bar,
		       bool finish, const char *why,
		       void (*closed)(struct gm_daemon *d, uint32_t row))
{
	struct gm_keeper *keeper = keeper_of(d, row);

	d->devices.of[row]->bars |= bar;
	gm_worker_users_row_closing(d, row);
	if (!keeper) {
		if (closed)
			closed(d, row);
		return;
	}
	if (closed)
		keeper->closed = closed;
	TAILQ_FOREACH(keeper, &d->supervisor->all, entry)
	{
		if (keeper->row == row)
			gm_need_bar(keeper, finish, why);
	}
}

void gm_supervisor_what_runs(const struct gm_daemon *d, uint32_t row,
			     char ret_why[GM_WHY_BYTES])
{
	const struct gm_keeper *keeper =
		row < GM_ROWS ? keeper_of(d, row) : NULL;
	const struct gm_keeper *programs =
		keeper ? gm_crews_running(d->supervisor, row) : NULL;

	if (keeper && keeper->state == GM_KEEPER_STUCK)
		gm_why(ret_why, 0,
		       "process %d of row %u does not end, not even by SIGKILL",
		       (int)keeper->child.pid, row);
	else if (keeper && keeper->is_drained && !keeper->may_leave)
		gm_why(ret_why, 0,
		       "the worker of row %u (pid %d) lends its memory to rows "
		       "that drain: ask again to wait for them",
		       row, (int)keeper->child.pid);
	else if (keeper && gm_keeper_has_child(keeper))
		gm_why(ret_why, 0,
		       "the worker of row %u (pid %d) has not finished yet: "
		       "ask again to wait for it",
		       row, (int)keeper->child.pid);
	else if (keeper && gm_spare_runs(&keeper->spare))
		gm_why(ret_why, 0,
		       "the spare worker of row %u (pid %d) does not end", row,
		       (int)keeper->spare.child.pid);
	else if (programs)
		gm_why(ret_why, 0,
		       "the worker for programs of uid %u on row %u (pid %d) "
		       "has not finished yet: ask again to wait for it",
		       (unsigned)programs->crew->uid, row,
		       (int)programs->child.pid);
	else
		gm_why(ret_why, 0, "row %u is not closed yet", row);
}

void gm_supervisor_unbar(struct gm_daemon *d, uint32_t row, uint32_t bars)
{
	struct gm_keeper *keeper = keeper_of(d, row);
	uint32_t *left = &d->devices.of[row]->bars;

	if ((*left & bars) == 0)
		return;
	*left &= ~bars;
	if (!keeper || *left != 0)
		return;
	TAILQ_FOREACH(keeper, &d->supervisor->all, entry)
	{
		if (keeper->row == row)
			gm_need_unbar(keeper);
	}
}

void gm_supervisor_drain(struct gm_daemon *d)
{
	struct gm_supervisor *s = d->supervisor;
	struct gm_keeper *keeper;

	if (!s || s->draining)
		return;
	s->draining = true;
	TAILQ_FOREACH(keeper, &s->all, entry)
	gm_keeper_drain(keeper);
}

bool gm_supervisor_drained(const struct gm_daemon *d)
{
	const struct gm_keeper *keeper;

	if (!d->supervisor)
		return true;
	TAILQ_FOREACH(keeper, &d->supervisor->all, entry)
	{
		if (keeper->state != GM_KEEPER_OFF ||
		    gm_spare_runs(&keeper->spare))
			return false;
	}
	return true;
}

static void wait_for(const struct gm_child *child, uint64_t until)
{
	char how[64];
	int status;

	while (!gm_spawn_reap(child, how, &status) && gm_loop_now() < until) {
		struct pollfd p = { child->pidfd, POLLIN, 0 };

		poll(&p, 1, 50);
	}
}

/* Those who would not end by themselves have had their time. */
static void kill_all(struct gm_supervisor *s)
{
	uint64_t until = gm_loop_now() + LAST_WAIT_S * TICK_NS;

	struct gm_keeper *keeper;

	TAILQ_FOREACH(keeper, &s->all, entry)
	{
		if (gm_keeper_has_child(keeper))
			gm_keeper_kill(keeper, "agent is ending");
		if (gm_spare_runs(&keeper->spare))
			kill(keeper->spare.child.pid, SIGKILL);
	}
	TAILQ_FOREACH(keeper, &s->all, entry)
	{
		if (gm_keeper_has_child(keeper))
			wait_for(&keeper->child, until);
		if (gm_spare_runs(&keeper->spare))
			wait_for(&keeper->spare.child, until);
	}
}

void gm_supervisor_exit(struct gm_daemon *d)
{
	struct gm_supervisor *s = d->supervisor;

	if (!s)
		return;
	kill_all(s);
	gm_timer_stop(&d->loop, &s->tick);
	gm_timer_stop(&d->loop, &s->parting);
	gm_crews_free(s);
	gm_crew_close(&s->rows);
	if (s->no_mps[0])
		rmdir(s->no_mps);
	free(s);
	d->supervisor = NULL;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/numa_bind.h"
#include "agent/daemon/base/environment.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/folder.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/demand.h"
#include "agent/daemon/workers/job_figures.h"
#include "agent/daemon/workers/program_workers.h"
#include "agent/daemon/workers/watchdog.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_process.h"
#include "agent/daemon/workers/worker_users.h"

#define TICK_NS     UINT64_C(1000000000)
#define LAST_WAIT_S 1 /* for the exits of those killed at the end */

/* Told to workers only when it moves: their line stays theirs. */
static void limit_spinning(struct gm_supervisor *s, uint64_t now)
{
	uint32_t limit = gm_spin_limit(&s->spin, now);

	if (s->d->config->spin_limit != GM_CONFIG_SPIN_AUTO)
		limit = s->d->config->spin_limit;
	if (gm_get(&s->rows.group_page->spin_limit) == limit)
		return;
	gm_put(&s->rows.group_page->spin_limit, limit);
	gm_log(GM_LOG_INFO, "spin_limit", "workers=%u", limit);
}

static void tick(struct gm_timer *timer)
{
	struct gm_supervisor *s = gm_owner(timer, struct gm_supervisor, tick);
	uint64_t now = gm_loop_now();
	struct gm_worker_process *worker;

	limit_spinning(s, now);
	TAILQ_FOREACH(worker, &s->all, entry)
	gm_watchdog_check(worker, now);
	gm_program_workers_tidy(s, now);
	gm_spawn_tidy();
	gm_timer_set(s->d->loop, &s->tick, now + TICK_NS);
}

/* A driver that finds an MPS daemon joins it, and shares its faults with
 * strangers: here it finds none. */
static int open_no_mps(struct gm_supervisor *s)
{
	int ret;

	if (s->no_mps[0])
		return 0;
	ret = gm_folder_path(s->no_mps, s->d->instance, "no-mps");
	if (ret)
		return ret;
	return mkdir(s->no_mps, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

/* Workers would take contexts of their own, beside the daemon's clients. */
static void look_for_mps(const struct gm_supervisor *s)
{
	static const char name[] = "CUDA_MPS_PIPE_DIRECTORY=";
	const char *folder = "/tmp/nvidia-mps";
	struct gm_environment env;
	char path[PATH_MAX];

	gm_environment_init(&env);
	gm_environment_pass(&env, s->d->config->cuda_pass);
	for (char **at = env.of; *at; at++) {
		if (strncmp(*at, name, sizeof(name) - 1) == 0)
			folder = *at + sizeof(name) - 1;
	}
	snprintf(path, sizeof(path), "%s/control", folder);
	if (access(path, F_OK) == 0)
		return;
	gm_log(GM_LOG_WARNING, "mps_absent", "path=%s error=%s remedy=%s",
	       gm_quote(path).text, gm_quote(strerror(errno)).text,
	       gm_quote("start nvidia-cuda-mps-control -d; the unit's /tmp is "
			"its own: see mps in gpumapd.conf(5)")
		       .text);
}

static int open_worker(struct gm_supervisor *s, uint32_t row)
{
	int error = 0;

	if (s->d->devices->of[row]->facts.kind == GPUMAP_DEVICE_CUDA)
		error = open_no_mps(s);
	return error ? error : gm_worker_process_make(s->d, &s->rows, row);
}

static int open_processes(struct gm_supervisor *s)
{
	const struct gm_devices *devices = s->d->devices;

	for (uint32_t row = 0; row < devices->n; row++) {
		int error;

		if (!devices->of[row]->present ||
		    !gm_device_can(devices->of[row], GPUMAP_DEVICE_SERVES))
			continue;
		error = open_worker(s, row);
		if (error)
			return error;
	}
	return 0;
}

int gm_supervisor_start(struct gm_daemon *d)
{
	struct gm_supervisor *s = calloc(1, sizeof(*s));
	int error = s ? 0 : -ENOMEM;
	struct gm_worker_process *worker;

	if (s) {
		d->supervisor = s;
		s->d = d;
		s->rows.group_page_fd = -1;
		TAILQ_INIT(&s->programs);
		TAILQ_INIT(&s->all);
		s->tick.fired = tick;
		s->parting.fired = gm_demand_part;
		signal(SIGCHLD, SIG_DFL); /* or no child could be waited for */
		error = gm_worker_group_open(&s->rows);
	}
	if (error == 0)
		error = open_processes(s);
	gm_worker_groups_sweep(d);
	if (error) {
		gm_log(GM_LOG_ERROR, "supervisor_failed", "error=%s",
		       gm_quote(strerror(-error)).text);
		gm_supervisor_exit(d);
		return error;
	}

	if (d->config->cuda_mps &&
	    d->config->cuda_enabled != GM_CONFIG_CUDA_OFF)
		look_for_mps(s);
	gm_spin_init(&s->spin, NULL,
		     (uint32_t)gm_idset_count(&d->allowed->cpus));
	tick(&s->tick);
	TAILQ_FOREACH(worker, &s->all, entry)
	gm_worker_process_start(worker);
	return 0;
}

int gm_supervisor_admit(struct gm_daemon *d, uint32_t row)
{
	struct gm_supervisor *s = d->supervisor;
	int error;

	if (!s || s->rows.workers[row]) /* it will be met at the start */
		return 0;
	error = s->draining ? -ESHUTDOWN : open_worker(s, row);
	if (error == 0) {
		gm_worker_process_start(s->rows.workers[row]);
		return 0;
	}
	gm_log(GM_LOG_ERROR, "not_admitted", "row=%u error=%s", row,
	       gm_quote(strerror(-error)).text);
	gm_worker_process_free(s->rows.workers[row]);
	s->rows.workers[row] = NULL;
	return error;
}

void gm_supervisor_row_reused(struct gm_daemon *d, uint32_t row)
{
	if (!d->supervisor)
		return;
	gm_program_workers_forget(d->supervisor, row);
	gm_worker_process_free(d->supervisor->rows.workers[row]);
	d->supervisor->rows.workers[row] = NULL;
}

/* ---- sessions ---------------------------------------------------------- */

/* Find the worker for an attachment: the row's own, or that of the uid's
 * programs. */
static int find_worker(struct gm_daemon *d, uint32_t row,
		       const struct gm_attachment *attachment,
		       struct gm_worker_process **ret_worker,
		       char ret_why[GM_WHY_BYTES])
{
	struct gm_worker_process *worker =
		row < GM_ROWS ? d->supervisor->rows.workers[row] : NULL;
	int error = 0;

	if (!worker)
		return gm_why(ret_why, -ENODEV,
			      "row %u has no worker; see gpumapctl devices",
			      row);
	if (d->supervisor->draining)
		return gm_why(ret_why, -ESHUTDOWN,
			      "the agent is shutting down");
	if (attachment->runs_programs)
		error = gm_program_workers_find(d->supervisor, row,
						attachment->uid, &worker);
	if (error)
		return gm_why(ret_why, error,
			      "no worker for programs on row %u: %s", row,
			      strerror(-error));
	*ret_worker = worker;
	return 0;
}

int gm_supervisor_attach(struct gm_daemon *d, uint32_t row,
			 struct gm_attachment *attachment,
			 char ret_why[GM_WHY_BYTES])
{
	struct gm_worker_process *worker = NULL;
	int error = find_worker(d, row, attachment, &worker, ret_why);

	if (error)
		return error;
	error = gm_attachments_add(worker, attachment, ret_why);
	if (error)
		return error;
	gm_worker_process_need(worker);
	gm_attachments_flush(worker);
	return 0;
}

void gm_supervisor_leave(struct gm_daemon *d, struct gm_attachment *attachment)
{
	(void)d;
	gm_attachments_leave(attachment);
}

/* ---- rows -------------------------------------------------------------- */

static struct gm_worker_process *worker_of(const struct gm_daemon *d,
					   uint32_t row)
{
	return d->supervisor ? d->supervisor->rows.workers[row] : NULL;
}

static bool is_quiet(const struct gm_worker_process *worker)
{
	return !worker || ((worker->state == GM_PROCESS_BARRED ||
			    worker->state == GM_PROCESS_IDLE) &&
			   !gm_worker_process_has_child(worker) &&
			   !gm_standby_runs(&worker->standby) &&
			   !gm_worker_process_has_attachments(worker));
}

bool gm_supervisor_row_used(const struct gm_daemon *d, uint32_t row)
{
	return d->supervisor && (!is_quiet(worker_of(d, row)) ||
				 gm_worker_groups_have(d->supervisor, row));
}

void gm_supervisor_bar(struct gm_daemon *d, uint32_t row, uint32_t bar,
		       bool finish, const char *why,
		       void (*closed)(struct gm_daemon *d, uint32_t row))
{
	struct gm_worker_process *worker;

	d->devices->of[row]->bars |= bar;
	gm_worker_users_row_closing(d, row);
	if (!d->supervisor) {
		if (closed)
			closed(d, row);
		return;
	}
	if (closed)
		d->devices->of[row]->closed = closed;
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		if (worker->row == row)
			gm_worker_process_bar(worker, finish, why);
	}
	gm_demand_closed(d, row);
}

void gm_supervisor_what_runs(const struct gm_daemon *d, uint32_t row,
			     char ret_why[GM_WHY_BYTES])
{
	const struct gm_worker_process *worker =
		row < GM_ROWS ? worker_of(d, row) : NULL;
	const struct gm_worker_process *programs =
		worker ? gm_worker_groups_running(d->supervisor, row) : NULL;

	gm_why(ret_why, 0, "row %u is not closed yet", row);
	gm_worker_users_explain_use(d, row, ret_why);
	if (worker && worker->state == GM_PROCESS_STUCK)
		gm_why(ret_why, 0,
		       "process %d of row %u does not end, not even by SIGKILL",
		       (int)worker->child.pid, row);
	else if (worker && worker->is_drained && !worker->may_leave)
		gm_why(ret_why, 0,
		       "the worker of row %u (pid %d) lends its memory to rows "
		       "that drain: ask again to wait for them",
		       row, (int)worker->child.pid);
	else if (worker && gm_worker_process_has_child(worker))
		gm_why(ret_why, 0,
		       "the worker of row %u (pid %d) has not finished yet: "
		       "ask again to wait for it",
		       row, (int)worker->child.pid);
	else if (worker && gm_standby_runs(&worker->standby))
		gm_why(ret_why, 0,
		       "the standby of row %u (pid %d) does not end", row,
		       (int)worker->standby.child.process.pid);
	else if (programs)
		gm_why(ret_why, 0,
		       "the worker for programs of uid %u on row %u (pid %d) "
		       "has not finished yet: ask again to wait for it",
		       (unsigned)programs->group->uid, row,
		       (int)programs->child.pid);
}

void gm_supervisor_unbar(struct gm_daemon *d, uint32_t row, uint32_t bars)
{
	struct gm_worker_process *worker = worker_of(d, row);
	uint32_t *left = &d->devices->of[row]->bars;

	if ((*left & bars) == 0)
		return;
	*left &= ~bars;
	if (*left == 0)
		d->devices->of[row]->closed = NULL;
	if (!worker || *left != 0)
		return;
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		if (worker->row == row)
			gm_worker_process_unbar(worker);
	}
}

void gm_supervisor_drain(struct gm_daemon *d)
{
	struct gm_supervisor *s = d->supervisor;
	struct gm_worker_process *worker;

	if (!s || s->draining)
		return;
	s->draining = true;
	TAILQ_FOREACH(worker, &s->all, entry)
	gm_worker_process_drain(worker);
}

bool gm_supervisor_drained(const struct gm_daemon *d)
{
	const struct gm_worker_process *worker;

	if (!d->supervisor)
		return true;
	TAILQ_FOREACH(worker, &d->supervisor->all, entry)
	{
		if (worker->state != GM_PROCESS_OFF ||
		    gm_standby_runs(&worker->standby))
			return false;
	}
	return true;
}

static void wait_for(const struct gm_spawned *child, uint64_t until)
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

	struct gm_worker_process *worker;

	TAILQ_FOREACH(worker, &s->all, entry)
	{
		if (gm_worker_process_has_child(worker))
			gm_worker_child_kill(worker, "agent is ending");
		if (gm_standby_runs(&worker->standby))
			kill(worker->standby.child.process.pid, SIGKILL);
	}
	TAILQ_FOREACH(worker, &s->all, entry)
	{
		if (gm_worker_process_has_child(worker))
			wait_for(&worker->child, until);
		gm_child_exit(&worker->standby.child, until);
	}
}

void gm_supervisor_exit(struct gm_daemon *d)
{
	struct gm_supervisor *s = d->supervisor;

	if (!s)
		return;
	kill_all(s);
	gm_job_figures_refresh(d);
	gm_timer_stop(d->loop, &s->tick);
	gm_timer_stop(d->loop, &s->parting);
	gm_program_workers_free(s);
	for (uint32_t row = 0; row < GM_ROWS; row++)
		gm_worker_process_free(s->rows.workers[row]);
	gm_worker_group_close(&s->rows);
	if (s->no_mps[0])
		rmdir(s->no_mps);
	free(s);
	d->supervisor = NULL;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/worker_process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/numa_bind.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/death.h"
#include "agent/daemon/workers/demand.h"
#include "agent/daemon/workers/exec.h"
#include "agent/daemon/workers/row_trace.h"
#include "agent/daemon/workers/stale_worker.h"
#include "agent/daemon/workers/watchdog.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_messages.h"
#include "agent/daemon/workers/worker_users.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/tracepoint.h"

#define MS           UINT64_C(1000000)
#define SECOND       UINT64_C(1000000000)

#define RECOVERY_NS  (10 * SECOND) /* for one recovery process */
#define DENY_NS      (1 * SECOND)  /* between recoveries of a barred row */
#define LAST_TURNS   64            /* of reading what a dead child has said */
#define LOCK_POLL_NS (20 * MS)
#define ORPHAN_NS    (3 * SECOND) /* for the worker of a dead agent to end */

static void spawn_worker(struct gm_worker_process *worker);
static void spawn_recovery(struct gm_worker_process *worker);

static void show(struct gm_worker_process *worker, uint32_t state,
		 const char *reason)
{
	gm_worker_child_show(worker, state, reason, 0);
}

/* ---- a child's start --------------------------------------------------- */

static void pidfd_ready(struct gm_source *source, uint32_t events);

static void socket_ready(struct gm_source *source, uint32_t events)
{
	struct gm_worker_process *worker =
		gm_owner(source, struct gm_worker_process, socket);

	if (gm_worker_messages_receive(worker) < 0)
		gm_worker_child_hung_up(worker);
	else
		gm_attachments_flush(worker);
}

static int watch(struct gm_worker_process *worker)
{
	int error;

	worker->pidfd = (struct gm_source){ worker->child.pidfd, pidfd_ready };
	worker->socket =
		(struct gm_source){ worker->child.socket, socket_ready };
	error = gm_loop_add(worker->d->loop, &worker->pidfd, EPOLLIN);
	if (error == 0)
		error = gm_loop_add(worker->d->loop, &worker->socket, EPOLLIN);
	return error;
}

static void unwatch(struct gm_worker_process *worker)
{
	if (worker->socket.fd >= 0) {
		gm_loop_del(worker->d->loop, &worker->socket);
		close(worker->socket.fd);
		worker->socket.fd = -1;
	}
	if (worker->pidfd.fd >= 0) {
		gm_loop_del(worker->d->loop, &worker->pidfd);
		close(worker->pidfd.fd);
		worker->pidfd.fd = -1;
	}
}

static int start_child(struct gm_worker_process *worker, enum gm_exec_part part)
{
	int error = -ENOENT;

	if (part == GM_EXEC_WORKER)
		error = gm_standby_take(worker, &worker->child);
	if (error)
		error = gm_worker_exec(worker, part, &worker->child);
	if (error)
		return error;
	worker->is_recovery = part == GM_EXEC_RECOVERY;
	worker->is_shown = false;
	worker->n_joining = 0;
	gm_put(&worker->journal->has_cards, 0);
	worker->drain_requested = worker->is_drained = false;
	worker->may_leave = worker->leave_sent = false;
	worker->code = 0;
	worker->why[0] = '\0';
	worker->times_stopped = 0;
	worker->times_lost = 0;
	worker->computed_ns = 0;
	worker->computed_long_ns = 0;
	worker->stalled_ns = 0;
	worker->locked_ns = 0;
	error = watch(worker);
	if (error) {
		gm_spawn_undo(&worker->child);
		unwatch(worker);
	}
	return error;
}

static void wait_for_need(struct gm_worker_process *worker)
{
	gm_standby_end(worker);
	gm_worker_child_enter(worker, GM_PROCESS_IDLE, 0);
	gm_death_over(worker);
}

static void back_off_now(struct gm_worker_process *worker, uint64_t wait)
{
	gm_log(GM_LOG_WARNING, "back_off",
	       "row=%u%s deaths=%u wait_ms=%" PRIu64, worker->row, worker->of,
	       worker->early_deaths, wait / MS);
	gm_worker_child_enter(worker, GM_PROCESS_RESTING, wait);
	gm_attachments_refuse(worker);
}

/* A worker after a death has to show that it starts, also when no session needs
 * it; not one of a program, which has no row of its own. */
static bool is_needless(const struct gm_worker_process *worker)
{
	return worker->on_need && !gm_worker_process_is_needed(worker) &&
	       (worker->early_deaths == 0 || worker->group->runs_programs);
}

/* Decide what follows when no child runs: the next worker, after the back-off
 * of the last death, or none. */
void gm_worker_process_rest(struct gm_worker_process *worker)
{
	uint64_t wait = gm_worker_child_back_off(worker->early_deaths);

	if (worker->draining) {
		gm_worker_child_enter(worker, GM_PROCESS_OFF, 0);
	} else if (gm_worker_child_is_barred(worker)) {
		gm_worker_child_enter(worker, GM_PROCESS_BARRED, DENY_NS);
		gm_attachments_refuse(worker);
		gm_demand_closed(worker->d, worker->row);
	} else if (is_needless(worker)) {
		wait_for_need(worker);
	} else if (wait) {
		back_off_now(worker, wait);
	} else {
		spawn_worker(worker);
	}
}

static void spawn_failed(struct gm_worker_process *worker, const char *what,
			 int error)
{
	char reason[GM_WHY_BYTES];

	snprintf(reason, sizeof(reason), "cannot start %s: %s",
		 worker->d->worker_path, strerror(-error));
	gm_log(GM_LOG_ERROR, "spawn_failed",
	       "row=%u%s what=%s path=%s error=%s remedy=%s", worker->row,
	       worker->of, what, gm_quote(worker->d->worker_path).text,
	       gm_quote(strerror(-error)).text,
	       gm_quote(error == -ENOENT ? "give its place with --worker"
					 : "see the error")
		       .text);
	gm_worker_child_show(worker, GPUMAP_DEVICE_FAILED, reason, error);
}

static void spawn_worker(struct gm_worker_process *worker)
{
	const struct gm_moving_image *moving =
		&worker->d->devices->of[worker->row]->moving;
	int error;

	worker->completed = gm_get(&worker->journal->completed);
	gm_watchdog_begin(worker);
	error = start_child(worker, GM_EXEC_WORKER);
	if (error) {
		spawn_failed(worker, "worker", error);
		worker->early_deaths += worker->early_deaths ? 1 : 2;
		gm_worker_process_rest(worker);
		return;
	}
	GM_POINT("supervise_spawned");
	gm_worker_child_show_pid(worker, worker->child.pid);
	if (worker->restarts && moving->state != GPUMAP_DEVICE_READY)
		show(worker, GPUMAP_DEVICE_RESTARTING, "worker is starting");
	gm_log(GM_LOG_INFO, "worker_started", "row=%u%s pid=%d restarts=%u",
	       worker->row, worker->of, (int)worker->child.pid,
	       worker->restarts);
	gm_worker_child_enter(worker, GM_PROCESS_STARTING,
			      gm_worker_exec_limit(worker));
	worker->times.started_ns = worker->since_ns;
	gm_row_trace_resume(worker);
}

/* ---- its end ----------------------------------------------------------- */

/* Once for each worker; a barred row has one a second. */
static void is_recovered(struct gm_worker_process *worker)
{
	uint64_t now = gm_loop_now();

	if (worker->times.recovered_ns == 0)
		gm_log(GM_LOG_INFO, "recovered", "row=%u%s after_ms=%" PRIu64,
		       worker->row, worker->of, (now - worker->since_ns) / MS);
	worker->times.recovered_ns = now;
	worker->recovery_deaths = 0;
	GM_POINT("supervise_recovered");
}

static void recovery_gone(struct gm_worker_process *worker, const char *how,
			  int status)
{
	bool is_owed = gm_attachments_child_gone(worker);
	uint64_t wait;

	if (status == 0 && !is_owed) {
		is_recovered(worker);
		gm_worker_process_rest(worker);
		return;
	}
	worker->recovery_deaths++;
	gm_log(GM_LOG_WARNING, "recovery_died", "row=%u%s reason=%s deaths=%u",
	       worker->row, worker->of,
	       gm_quote(worker->why[0] ? worker->why : how).text,
	       worker->recovery_deaths);
	if (!is_owed) { /* all it had to do was done */
		gm_worker_process_rest(worker);
		return;
	}
	wait = gm_worker_child_back_off(worker->recovery_deaths);
	if (wait == 0)
		spawn_recovery(worker);
	else
		gm_worker_child_enter(worker, GM_PROCESS_RECOVERING,
				      wait < SECOND ? wait : SECOND);
}

static void spawn_recovery(struct gm_worker_process *worker)
{
	int error = start_child(worker, GM_EXEC_RECOVERY);

	if (error) {
		spawn_failed(worker, "recovery", error);
		gm_worker_child_enter(worker, GM_PROCESS_RECOVERING, SECOND);
		return;
	}
	gm_worker_child_enter(worker, GM_PROCESS_RECOVERING, RECOVERY_NS);
	gm_attachments_flush(worker);
	GM_POINT("supervise_recovering");
}

/* The worker found no such device: until the probe has seen it again, no other
 * is started. */
static void is_lost(struct gm_worker_process *worker, const char *reason)
{
	gm_worker_users_row_closing(worker->d, worker->row);
	gm_standby_end(worker);
	gm_attachments_refuse_newcomers(worker, reason);
}

/* One that was asked to end, and did, owes nothing that it was told of; what
 * came meanwhile is owed all the same, but by an agent that drains. */
static void worker_gone(struct gm_worker_process *worker, const char *how,
			int status)
{
	uint64_t completed = gm_get(&worker->journal->completed);
	bool well = worker->drain_sent && status == 0;
	const char *why = worker->why[0] ? worker->why : how;
	char reason[GM_WHY_BYTES];
	bool is_owed;

	gm_timer_stop(worker->d->loop, &worker->idle);
	gm_death_log(worker, well, why);
	gm_put(&worker->group->group_page->spinning[worker->row], 0);
	if (!well) {
		gm_worker_child_failing(worker);
		worker->times.gone_ns = gm_loop_now();
		worker->times.recovered_ns = 0;
		if (gm_death_show(worker, why, reason))
			is_lost(worker, reason);
	}
	gm_worker_child_show_pid(worker, 0);
	gm_demand_recheck(worker->d->supervisor);
	GM_POINT("supervise_died");

	if (well || completed != worker->completed)
		worker->early_deaths = 0;
	else
		worker->early_deaths++;
	is_owed = gm_attachments_child_gone(worker) &&
		  !(well && worker->draining);
	gm_worker_users_worker_gone(worker, well);
	worker->restarts += !well;
	if (!well)
		GM_TRACEPOINT(restart, worker->row, worker->restarts);
	if (is_owed)
		spawn_recovery(worker);
	else
		gm_worker_process_rest(worker);
}

static void child_gone(struct gm_worker_process *worker, const char *how,
		       int status)
{
	unwatch(worker);
	gm_timer_stop(worker->d->loop, &worker->timer);
	if (worker->is_recovery)
		recovery_gone(worker, how, status);
	else
		worker_gone(worker, how, status);
}

static void pidfd_ready(struct gm_source *source, uint32_t events)
{
	struct gm_worker_process *worker =
		gm_owner(source, struct gm_worker_process, pidfd);
	char how[64];
	int status;

	/* Its last words first.  Its io_uring may hold its end of the pair for
	 * some time yet, so they need not end with a hang-up. */
	for (int i = 0;
	     i < LAST_TURNS && gm_worker_messages_receive(worker) > 0; i++)
		;
	if (gm_spawn_reap(&worker->child, how, &status))
		child_gone(worker, how, status);
}

/* ---- waiting ----------------------------------------------------------- */

static void start_when_free(struct gm_worker_process *worker)
{
	pid_t holder = gm_stale_worker_holder(worker->lock_path);
	char reason[GM_WHY_BYTES];

	if (worker->draining || holder == 0) {
		gm_worker_process_rest(worker);
		return;
	}
	if (worker->state != GM_PROCESS_LOCKED || holder != worker->stale_pid) {
		worker->stale_pid = holder;
		worker->stale_was_killed = false;
		worker->stale_due_ns = gm_loop_now() + ORPHAN_NS;
		snprintf(reason, sizeof(reason),
			 "worker %d of the agent before is ending",
			 (int)holder);
		gm_log(GM_LOG_INFO, "row_locked", "row=%u%s by_pid=%d lock=%s",
		       worker->row, worker->of, (int)holder,
		       gm_quote(worker->lock_path).text);
		show(worker, GPUMAP_DEVICE_RESTARTING, reason);
	} else if (worker->stale_was_killed && !worker->is_card &&
		   gm_loop_now() >= worker->stale_due_ns) {
		gm_stale_worker_abandon(worker->row, worker->lock_path, holder);
		worker->stale_due_ns = gm_loop_now() + ORPHAN_NS;
	} else if (gm_loop_now() >= worker->stale_due_ns) {
		/* A process that is no worker is left alone, which is logged
		 * once. */
		bool is_stuck = worker->stale_was_killed;

		worker->stale_due_ns = gm_loop_now() + ORPHAN_NS;
		worker->stale_was_killed =
			gm_stale_worker_end(worker->row, worker->lock_path,
					    holder) == 0;
		if (!worker->stale_was_killed) {
			worker->stale_due_ns = UINT64_MAX;
			is_stuck = true;
		}
		/* A client need not wait for a row that may never have a
		 * worker. */
		if (is_stuck) {
			snprintf(reason, sizeof(reason),
				 "process %d holds its lock, and does not end",
				 (int)holder);
			show(worker, GPUMAP_DEVICE_FAILED, reason);
		}
	}
	gm_worker_child_enter(worker, GM_PROCESS_LOCKED, LOCK_POLL_NS);
}

/* A call of the killed child does not end, such as a read of a file system that
 * never answers.  The child runs no code any more, so its row need not wait for
 * it.  A card has to: the process has the device, and what it has begun there
 * may go on. */
static void is_stuck(struct gm_worker_process *worker)
{
	if (!worker->is_card &&
	    gm_stale_worker_abandon(worker->row, worker->lock_path,
				    worker->child.pid) == 0) {
		gm_spawn_abandon(&worker->child);
		child_gone(worker, "killed, and does not end", -1);
		return;
	}
	gm_log(GM_LOG_ERROR, "worker_stuck", "row=%u%s pid=%d", worker->row,
	       worker->of, (int)worker->child.pid);
	gm_death_stuck(worker);
	gm_worker_child_enter(worker, GM_PROCESS_STUCK, 0);
	gm_attachments_refuse(worker);
}

static void timer_fired(struct gm_timer *timer)
{
	struct gm_worker_process *worker =
		gm_owner(timer, struct gm_worker_process, timer);

	switch (worker->state) {
	case GM_PROCESS_LOCKED:
		start_when_free(worker);
		break;
	case GM_PROCESS_RESTING:
		spawn_worker(worker);
		break;
	case GM_PROCESS_STARTING:
		gm_worker_child_kill(worker, "it did not get ready in time");
		break;
	case GM_PROCESS_SERVING:
		if (worker->socket.fd >= 0)
			gm_demand_overdue(worker);
		else
			gm_worker_child_kill(
				worker, "it closed its socket and went on");
		break;
	case GM_PROCESS_BARRED:
		if (gm_attachments_owe_all(worker))
			spawn_recovery(worker);
		else
			gm_worker_child_enter(worker, GM_PROCESS_BARRED,
					      DENY_NS);
		break;
	case GM_PROCESS_ENDING:
		is_stuck(worker);
		break;
	case GM_PROCESS_RECOVERING:
		if (gm_worker_process_has_child(worker))
			gm_worker_child_kill(worker, "recovery takes too long");
		else
			spawn_recovery(worker);
		break;
	case GM_PROCESS_STUCK:
	case GM_PROCESS_IDLE:
	case GM_PROCESS_OFF:
		break;
	}
}

void gm_worker_process_drain(struct gm_worker_process *worker)
{
	worker->draining = true;
	gm_worker_users_refused(worker, -ESHUTDOWN,
				"the agent is shutting down");
	gm_standby_end(worker);
	switch (worker->state) {
	case GM_PROCESS_LOCKED:
	case GM_PROCESS_IDLE:
	case GM_PROCESS_BARRED:
	case GM_PROCESS_RESTING:
		gm_worker_child_enter(worker, GM_PROCESS_OFF, 0);
		break;
	case GM_PROCESS_STARTING:
	case GM_PROCESS_SERVING:
		show(worker, GPUMAP_DEVICE_DRAINING, "agent is shutting down");
		gm_demand_end(worker);
		break;
	default: /* ending anyway, and nothing follows */
		break;
	}
}

/* ---- need and bars ------------------------------------------------------ */

void gm_worker_process_need(struct gm_worker_process *worker)
{
	gm_timer_stop(worker->d->loop, &worker->idle);
	if (worker->state == GM_PROCESS_IDLE)
		gm_worker_process_rest(worker);
}

void gm_worker_process_bar(struct gm_worker_process *worker, bool finish,
			   const char *why)
{
	gm_standby_end(worker);
	gm_attachments_refuse_newcomers(worker, why);
	switch (worker->state) {
	case GM_PROCESS_IDLE:
	case GM_PROCESS_RESTING:
		gm_worker_process_rest(worker);
		break;
	case GM_PROCESS_BARRED:
		gm_demand_closed(worker->d, worker->row);
		break;
	case GM_PROCESS_STARTING:
	case GM_PROCESS_SERVING:
		if (finish)
			gm_demand_end(worker);
		else
			gm_worker_child_kill(worker, why);
		break;
	default: /* what comes next is that */
		break;
	}
}

void gm_worker_process_unbar(struct gm_worker_process *worker)
{
	if (worker->state == GM_PROCESS_BARRED)
		gm_worker_process_rest(worker);
	else if (worker->state == GM_PROCESS_STUCK)
		gm_death_stuck(worker);
}

static void standby_gone(struct gm_worker_process *worker)
{
	gm_demand_closed(worker->d, worker->row);
}

/* ---- its own start and end --------------------------------------------- */

int gm_worker_process_make(struct gm_daemon *d, struct gm_worker_group *group,
			   uint32_t row)
{
	struct gm_worker_process *worker = calloc(1, sizeof(*worker));
	int error, node = d->devices->of[row]->facts.numa_node;

	if (!worker)
		return -ENOMEM;
	worker->d = d;
	worker->group = group;
	worker->row = row;
	worker->pidfd.fd = -1;
	worker->socket.fd = -1;
	worker->timer.fired = timer_fired;
	worker->idle.fired = gm_demand_idle;
	worker->is_card =
		gm_device_can(d->devices->of[row], GPUMAP_DEVICE_CARD);
	worker->on_need = worker->is_card || group->runs_programs;
	gm_standby_init(&worker->standby, standby_gone);
	worker->journal_fd = -1;
	worker->trace.fd = -1;
	worker->waker = -1;
	if (gm_worker_process_is_shown(worker))
		worker->restarts = d->devices->of[row]->moving.restarts;
	TAILQ_INIT(&worker->attachments);
	TAILQ_INIT(&worker->fetched);
	for (uint32_t i = 0; i < GM_JOURNAL_PLACES; i++)
		worker->free[worker->n_free++] =
			(uint16_t)(GM_JOURNAL_PLACES - 1 - i);
	group->workers[row] = worker;
	TAILQ_INSERT_TAIL(&d->supervisor->all, worker, entry);

	error = gm_worker_child_name(worker);
	if (error)
		return error;
	worker->journal_fd = gm_spawn_memfd("gpumap-journal", GM_JOURNAL_BYTES);
	if (worker->journal_fd < 0)
		return worker->journal_fd;
	worker->journal = mmap(NULL, GM_JOURNAL_BYTES, PROT_READ | PROT_WRITE,
			       MAP_SHARED, worker->journal_fd, 0);
	if (worker->journal == MAP_FAILED) {
		worker->journal = NULL;
		return -errno;
	}
	/* gpumapd touches it first, and the worker at every job. */
	if (node >= 0)
		gm_numa_bind_range(worker->journal, GM_JOURNAL_BYTES, node,
				   GM_NUMA_BIND_PREFER);
	return 0;
}

void gm_worker_process_start(struct gm_worker_process *worker)
{
	start_when_free(worker);
}

void gm_worker_process_free(struct gm_worker_process *worker)
{
	if (!worker)
		return;
	gm_timer_stop(worker->d->loop, &worker->timer);
	gm_timer_stop(worker->d->loop, &worker->idle);
	gm_standby_free(worker);
	gm_worker_users_hung_up(worker);
	gm_row_trace_end(worker);
	unwatch(worker);
	TAILQ_REMOVE(&worker->d->supervisor->all, worker, entry);
	if (worker->journal)
		munmap(worker->journal, GM_JOURNAL_BYTES);
	if (worker->journal_fd >= 0)
		close(worker->journal_fd);
	if (worker->waker >= 0)
		close(worker->waker);
	free(worker);
}

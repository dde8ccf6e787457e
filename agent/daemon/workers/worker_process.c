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
#include "agent/daemon/daemon.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/workers/stale_worker.h"
#include "agent/daemon/workers/worker_users.h"
#include "gpumap.h"
#include "shm/point.h"

#define MS           UINT64_C(1000000)
#define SECOND       UINT64_C(1000000000)

#define BURY_NS      (10 * SECOND) /* for one undertaker */
#define HANG_UP_NS   (1 * SECOND)  /* from a closed socket to the exit */
#define HANG_UP_CARD (10 * SECOND) /* likewise, with a context to give up */
#define STUCK_NS     (5 * SECOND)  /* from SIGKILL to the exit */
#define DENY_NS      (1 * SECOND)  /* between burials of a barred row */
#define LAST_TURNS   64            /* of reading what a dead child has said */
#define LOCK_POLL_NS (20 * MS)
#define ORPHAN_NS    (3 * SECOND) /* for the worker of a dead agent to end */
#define BACK_OFF_NS  (100 * MS)   /* after the second early death, times 4 */
#define BACK_OFF_MAX (30 * SECOND)
#define LONG_REST    (1 * SECOND) /* from here on newcomers are not kept */

static void spawn_worker(struct gm_keeper *keeper);
static void spawn_undertaker(struct gm_keeper *keeper);

/* Its timer fires after @limit_ns, 0: never. */
static void enter(struct gm_keeper *keeper, enum gm_keeper_state state,
		  uint64_t limit_ns)
{
	keeper->state = state;
	keeper->since_ns = gm_loop_now();
	if (limit_ns)
		gm_timer_set(&keeper->d->loop, &keeper->timer,
			     keeper->since_ns + limit_ns);
	else
		gm_timer_stop(&keeper->d->loop, &keeper->timer);
}

static void show(struct gm_keeper *keeper, uint32_t state, const char *reason)
{
	gm_keeper_show(keeper, state, reason, 0);
}

bool gm_keeper_is_barred(const struct gm_keeper *keeper)
{
	return keeper->d->devices.of[keeper->row]->bars != 0;
}

/* ---- a child's start --------------------------------------------------- */

static void pidfd_ready(struct gm_source *source, uint32_t events);

static void socket_ready(struct gm_source *source, uint32_t events)
{
	struct gm_keeper *keeper = gm_owner(source, struct gm_keeper, socket);

	if (gm_seats_listen(keeper) < 0)
		gm_keeper_hung_up(keeper);
	else
		gm_seats_pump(keeper);
}

static int watch(struct gm_keeper *keeper)
{
	int error;

	keeper->pidfd = (struct gm_source){ keeper->child.pidfd, pidfd_ready };
	keeper->socket =
		(struct gm_source){ keeper->child.socket, socket_ready };
	error = gm_loop_add(&keeper->d->loop, &keeper->pidfd, EPOLLIN);
	if (error == 0)
		error = gm_loop_add(&keeper->d->loop, &keeper->socket, EPOLLIN);
	return error;
}

static void unwatch(struct gm_keeper *keeper)
{
	if (keeper->socket.fd >= 0) {
		gm_loop_del(&keeper->d->loop, &keeper->socket);
		close(keeper->socket.fd);
		keeper->socket.fd = -1;
	}
	if (keeper->pidfd.fd >= 0) {
		gm_loop_del(&keeper->d->loop, &keeper->pidfd);
		close(keeper->pidfd.fd);
		keeper->pidfd.fd = -1;
	}
}

static int start_child(struct gm_keeper *keeper, enum gm_launch_part part)
{
	int error = -ENOENT;

	if (part == GM_LAUNCH_WORKER)
		error = gm_spare_take(keeper, &keeper->child);
	if (error)
		error = gm_launch(keeper, part, &keeper->child);
	if (error)
		return error;
	keeper->is_undertaker = part == GM_LAUNCH_UNDERTAKER;
	keeper->is_shown = false;
	keeper->wants_end = keeper->is_drained = false;
	keeper->may_leave = keeper->told_leave = false;
	keeper->code = 0;
	keeper->why[0] = '\0';
	keeper->times_stopped = 0;
	keeper->computed_ns = 0;
	keeper->computed_long_ns = 0;
	error = watch(keeper);
	if (error) {
		gm_spawn_undo(&keeper->child);
		unwatch(keeper);
	}
	return error;
}

static uint64_t back_off(uint32_t deaths)
{
	uint64_t wait = BACK_OFF_NS;

	if (deaths < 2)
		return 0;
	while (deaths-- > 2 && wait < BACK_OFF_MAX)
		wait *= 4;
	return wait < BACK_OFF_MAX ? wait : BACK_OFF_MAX;
}

static void show_ready(struct gm_keeper *keeper)
{
	if (gm_keeper_is_shown(keeper) &&
	    keeper->d->devices.of[keeper->row]->moving.state !=
		    GPUMAP_DEVICE_READY)
		show(keeper, GPUMAP_DEVICE_READY, NULL);
	gm_death_over(keeper);
}

static void wait_for_need(struct gm_keeper *keeper)
{
	gm_spare_end(keeper);
	enter(keeper, GM_KEEPER_IDLE, 0);
	show_ready(keeper);
}

static void back_off_now(struct gm_keeper *keeper, uint64_t wait)
{
	gm_log(GM_LOG_WARNING, "back_off",
	       "row=%u%s deaths=%u wait_ms=%" PRIu64, keeper->row, keeper->of,
	       keeper->early_deaths, wait / MS);
	enter(keeper, GM_KEEPER_RESTING, wait);
	gm_seats_refuse(keeper);
}

/* One that is out of favour has to prove itself, but for programs: theirs is
 * nobody's row. */
static bool is_needless(const struct gm_keeper *keeper)
{
	return keeper->on_need && !gm_keeper_is_needed(keeper) &&
	       (keeper->early_deaths == 0 || keeper->crew->runs_programs);
}

/* What comes now that no child runs: the next worker, after what the last one's
 * death asks for, or none. */
void gm_keeper_rest(struct gm_keeper *keeper)
{
	uint64_t wait = back_off(keeper->early_deaths);

	if (keeper->draining) {
		enter(keeper, GM_KEEPER_OFF, 0);
	} else if (gm_keeper_is_barred(keeper)) {
		enter(keeper, GM_KEEPER_BARRED, DENY_NS);
		gm_seats_refuse(keeper);
		gm_need_closed(keeper);
	} else if (is_needless(keeper)) {
		wait_for_need(keeper);
	} else if (wait) {
		back_off_now(keeper, wait);
	} else {
		spawn_worker(keeper);
	}
}

bool gm_keeper_rests_long(const struct gm_keeper *keeper)
{
	return keeper->state == GM_KEEPER_RESTING &&
	       back_off(keeper->early_deaths) >= LONG_REST;
}

static void spawn_failed(struct gm_keeper *keeper, const char *what, int error)
{
	char reason[GM_WHY_BYTES];

	snprintf(reason, sizeof(reason), "cannot start %s: %s",
		 keeper->d->worker_path, strerror(-error));
	gm_log(GM_LOG_ERROR, "spawn_failed",
	       "row=%u%s what=%s path=%s error=%s remedy=%s", keeper->row,
	       keeper->of, what, gm_quote(keeper->d->worker_path).text,
	       gm_quote(strerror(-error)).text,
	       gm_quote(error == -ENOENT ? "give its place with --worker"
					 : "see the error")
		       .text);
	gm_keeper_show(keeper, GPUMAP_DEVICE_FAILED, reason, error);
}

static void spawn_worker(struct gm_keeper *keeper)
{
	const struct gm_moving_image *moving =
		&keeper->d->devices.of[keeper->row]->moving;
	int error;

	keeper->completed = gm_get(&keeper->journal->completed);
	error = start_child(keeper, GM_LAUNCH_WORKER);
	if (error) {
		spawn_failed(keeper, "worker", error);
		keeper->early_deaths += keeper->early_deaths ? 1 : 2;
		gm_keeper_rest(keeper);
		return;
	}
	GM_POINT("supervise_spawned");
	gm_keeper_show_worker(keeper, keeper->child.pid);
	if (keeper->restarts && moving->state != GPUMAP_DEVICE_READY)
		show(keeper, GPUMAP_DEVICE_RESTARTING, "worker is starting");
	gm_log(GM_LOG_INFO, "worker_started", "row=%u%s pid=%d restarts=%u",
	       keeper->row, keeper->of, (int)keeper->child.pid,
	       keeper->restarts);
	enter(keeper, GM_KEEPER_STARTING, gm_patience_ready(keeper));
	keeper->times.started_ns = keeper->since_ns;
}

void gm_keeper_ready(struct gm_keeper *keeper, const char *took)
{
	if (keeper->state != GM_KEEPER_STARTING)
		return;
	gm_log(GM_LOG_INFO, "worker_ready",
	       "row=%u%s pid=%d after_ms=%" PRIu64 "%s%s", keeper->row,
	       keeper->of, (int)keeper->child.pid,
	       (gm_loop_now() - keeper->since_ns) / MS, took[0] ? " " : "",
	       took);
	enter(keeper, GM_KEEPER_SERVING, 0);
	if (keeper->wants_end)
		gm_need_end(keeper);
	gm_seats_pump(keeper);
	if (!gm_keeper_is_needed(keeper))
		gm_need_ends(keeper);
}

/* Not before: what a client submits to a queue that the new worker has not
 * taken yet is of the dead one's incarnation, and ends with -EIO. */
void gm_keeper_settled(struct gm_keeper *keeper)
{
	if (keeper->is_shown || keeper->draining || gm_keeper_is_barred(keeper))
		return;
	keeper->is_shown = true;
	show_ready(keeper);
	if (keeper->is_card && gm_keeper_is_shown(keeper) &&
	    keeper->d->config.cuda_spare)
		gm_spare_want(keeper);
	GM_POINT("supervise_ready");
}

/* ---- its end ----------------------------------------------------------- */

void gm_keeper_kill(struct gm_keeper *keeper, const char *why)
{
	if (!gm_keeper_has_child(keeper) || keeper->state == GM_KEEPER_ENDING ||
	    keeper->state == GM_KEEPER_STUCK)
		return;
	if (!keeper->why[0])
		snprintf(keeper->why, sizeof(keeper->why), "%s", why);
	gm_log(GM_LOG_WARNING,
	       keeper->is_undertaker ? "undertaker_killed" : "worker_killed",
	       "row=%u%s pid=%d reason=%s", keeper->row, keeper->of,
	       (int)keeper->child.pid, gm_quote(why).text);
	if (!keeper->is_undertaker)
		gm_death_begins(keeper);
	kill(keeper->child.pid, SIGKILL);
	enter(keeper, GM_KEEPER_ENDING, STUCK_NS);
}

void gm_keeper_hung_up(struct gm_keeper *keeper)
{
	if (keeper->socket.fd < 0)
		return;
	gm_loop_del(&keeper->d->loop, &keeper->socket);
	close(keeper->socket.fd);
	keeper->socket.fd = -1;

	/* It is about to exit, or else it has no business to go on. */
	if (keeper->state != GM_KEEPER_ENDING &&
	    keeper->state != GM_KEEPER_STUCK)
		gm_timer_set(&keeper->d->loop, &keeper->timer,
			     gm_loop_now() + (keeper->is_card ? HANG_UP_CARD
							      : HANG_UP_NS));
}

/* Once for each worker; a barred row has one a second. */
static void is_buried(struct gm_keeper *keeper)
{
	uint64_t now = gm_loop_now();

	if (keeper->times.buried_ns == 0)
		gm_log(GM_LOG_INFO, "buried", "row=%u%s after_ms=%" PRIu64,
		       keeper->row, keeper->of, (now - keeper->since_ns) / MS);
	keeper->times.buried_ns = now;
	keeper->burial_deaths = 0;
	GM_POINT("supervise_buried");
}

static void undertaker_gone(struct gm_keeper *keeper, const char *how,
			    int status)
{
	bool is_owed = gm_seats_child_gone(keeper);
	uint64_t wait;

	if (status == 0 && !is_owed) {
		is_buried(keeper);
		gm_keeper_rest(keeper);
		return;
	}
	keeper->burial_deaths++;
	gm_log(GM_LOG_WARNING, "undertaker_died",
	       "row=%u%s reason=%s deaths=%u", keeper->row, keeper->of,
	       gm_quote(keeper->why[0] ? keeper->why : how).text,
	       keeper->burial_deaths);
	if (!is_owed) { /* all it had to do was done */
		gm_keeper_rest(keeper);
		return;
	}
	wait = back_off(keeper->burial_deaths);
	if (wait == 0)
		spawn_undertaker(keeper);
	else
		enter(keeper, GM_KEEPER_BURYING, wait < SECOND ? wait : SECOND);
}

static void spawn_undertaker(struct gm_keeper *keeper)
{
	int error = start_child(keeper, GM_LAUNCH_UNDERTAKER);

	if (error) {
		spawn_failed(keeper, "undertaker", error);
		enter(keeper, GM_KEEPER_BURYING, SECOND);
		return;
	}
	enter(keeper, GM_KEEPER_BURYING, BURY_NS);
	gm_seats_pump(keeper);
	GM_POINT("supervise_burying");
}

/* One that was asked to end, and did, owes nothing that it was told of; what
 * came meanwhile is owed all the same, but by an agent that drains. */
static void worker_gone(struct gm_keeper *keeper, const char *how, int status)
{
	uint64_t completed = gm_get(&keeper->journal->completed);
	bool well = keeper->told_end && status == 0;
	const char *why = keeper->why[0] ? keeper->why : how;
	bool is_owed;

	gm_timer_stop(&keeper->d->loop, &keeper->idle);
	gm_death_log(keeper, well, why);
	gm_put(&keeper->crew->commons->spinning[keeper->row], 0);
	if (!well) {
		gm_death_begins(keeper);
		keeper->times.gone_ns = gm_loop_now();
		keeper->times.buried_ns = 0;
		gm_death_show(keeper, why);
	}
	gm_keeper_show_worker(keeper, 0);
	gm_need_look(keeper->d->supervisor);
	GM_POINT("supervise_died");

	if (well || completed != keeper->completed)
		keeper->early_deaths = 0;
	else
		keeper->early_deaths++;
	is_owed = gm_seats_child_gone(keeper) && !(well && keeper->draining);
	gm_worker_users_worker_gone(keeper, well);
	keeper->restarts += !well;
	if (is_owed)
		spawn_undertaker(keeper);
	else
		gm_keeper_rest(keeper);
}

static void pidfd_ready(struct gm_source *source, uint32_t events)
{
	struct gm_keeper *keeper = gm_owner(source, struct gm_keeper, pidfd);
	char how[64];
	int status;

	/* Its last words first.  Its io_uring may hold its end of the pair for
	 * some time yet, so they need not end with a hang-up. */
	for (int i = 0; i < LAST_TURNS && gm_seats_listen(keeper) > 0; i++)
		;
	if (!gm_spawn_reap(&keeper->child, how, &status))
		return;
	unwatch(keeper);
	gm_timer_stop(&keeper->d->loop, &keeper->timer);
	if (keeper->is_undertaker)
		undertaker_gone(keeper, how, status);
	else
		worker_gone(keeper, how, status);
}

/* ---- waiting ----------------------------------------------------------- */

static void start_when_free(struct gm_keeper *keeper)
{
	pid_t holder = gm_orphan_holder(keeper->lock_path);
	char reason[GM_WHY_BYTES];

	if (keeper->draining || holder == 0) {
		gm_keeper_rest(keeper);
		return;
	}
	if (keeper->state != GM_KEEPER_LOCKED || holder != keeper->orphan) {
		keeper->orphan = holder;
		keeper->orphan_due_ns = gm_loop_now() + ORPHAN_NS;
		snprintf(reason, sizeof(reason),
			 "worker %d of the agent before is ending",
			 (int)holder);
		gm_log(GM_LOG_INFO, "row_locked", "row=%u%s by_pid=%d lock=%s",
		       keeper->row, keeper->of, (int)holder,
		       gm_quote(keeper->lock_path).text);
		show(keeper, GPUMAP_DEVICE_RESTARTING, reason);
	} else if (gm_loop_now() >= keeper->orphan_due_ns) {
		/* What is no worker is left alone, and that is said once. */
		keeper->orphan_due_ns = gm_loop_now() + ORPHAN_NS;
		if (gm_orphan_end(keeper->row, keeper->lock_path, holder) != 0)
			keeper->orphan_due_ns = UINT64_MAX;
	}
	enter(keeper, GM_KEEPER_LOCKED, LOCK_POLL_NS);
}

static void is_stuck(struct gm_keeper *keeper)
{
	gm_log(GM_LOG_ERROR, "worker_stuck", "row=%u%s pid=%d", keeper->row,
	       keeper->of, (int)keeper->child.pid);
	gm_death_stuck(keeper);
	enter(keeper, GM_KEEPER_STUCK, 0);
	gm_seats_refuse(keeper);
}

static void timer_fired(struct gm_timer *timer)
{
	struct gm_keeper *keeper = gm_owner(timer, struct gm_keeper, timer);

	switch (keeper->state) {
	case GM_KEEPER_LOCKED:
		start_when_free(keeper);
		break;
	case GM_KEEPER_RESTING:
		spawn_worker(keeper);
		break;
	case GM_KEEPER_STARTING:
		gm_keeper_kill(keeper, "it did not get ready in time");
		break;
	case GM_KEEPER_SERVING:
		if (keeper->socket.fd >= 0)
			gm_need_overdue(keeper);
		else
			gm_keeper_kill(keeper,
				       "it closed its socket and went on");
		break;
	case GM_KEEPER_BARRED:
		if (gm_seats_owe_all(keeper))
			spawn_undertaker(keeper);
		else
			enter(keeper, GM_KEEPER_BARRED, DENY_NS);
		break;
	case GM_KEEPER_ENDING:
		is_stuck(keeper);
		break;
	case GM_KEEPER_BURYING:
		if (gm_keeper_has_child(keeper))
			gm_keeper_kill(keeper, "a burial takes too long");
		else
			spawn_undertaker(keeper);
		break;
	case GM_KEEPER_STUCK:
	case GM_KEEPER_IDLE:
	case GM_KEEPER_OFF:
		break;
	}
}

void gm_keeper_drain(struct gm_keeper *keeper)
{
	keeper->draining = true;
	gm_worker_users_refused(keeper, -ESHUTDOWN,
				"the agent is shutting down");
	gm_spare_end(keeper);
	switch (keeper->state) {
	case GM_KEEPER_LOCKED:
	case GM_KEEPER_IDLE:
	case GM_KEEPER_BARRED:
	case GM_KEEPER_RESTING:
		enter(keeper, GM_KEEPER_OFF, 0);
		break;
	case GM_KEEPER_STARTING:
	case GM_KEEPER_SERVING:
		show(keeper, GPUMAP_DEVICE_DRAINING, "agent is shutting down");
		gm_need_end(keeper);
		break;
	default: /* ending anyway, and nothing follows */
		break;
	}
}

/* ---- its own start and end --------------------------------------------- */

int gm_keeper_make(struct gm_daemon *d, struct gm_crew *crew, uint32_t row)
{
	struct gm_keeper *keeper = calloc(1, sizeof(*keeper));
	int error;

	if (!keeper)
		return -ENOMEM;
	keeper->d = d;
	keeper->crew = crew;
	keeper->row = row;
	keeper->pidfd.fd = -1;
	keeper->socket.fd = -1;
	keeper->timer.fired = timer_fired;
	keeper->idle.fired = gm_need_idle;
	keeper->is_card = d->devices.of[row]->facts.kind == GPUMAP_DEVICE_CUDA;
	keeper->on_need = keeper->is_card || crew->runs_programs;
	gm_spare_init(&keeper->spare);
	keeper->journal_fd = -1;
	keeper->waker = -1;
	if (gm_keeper_is_shown(keeper))
		keeper->restarts = d->devices.of[row]->moving.restarts;
	TAILQ_INIT(&keeper->seats);
	TAILQ_INIT(&keeper->fetched);
	for (uint32_t i = 0; i < GM_JOURNAL_PLACES; i++)
		keeper->free[keeper->n_free++] =
			(uint16_t)(GM_JOURNAL_PLACES - 1 - i);
	crew->keepers[row] = keeper;
	TAILQ_INSERT_TAIL(&d->supervisor->all, keeper, entry);

	error = gm_keeper_name(keeper);
	if (error)
		return error;
	keeper->journal_fd = gm_spawn_memfd("gpumap-journal", GM_JOURNAL_BYTES);
	if (keeper->journal_fd < 0)
		return keeper->journal_fd;
	keeper->journal = mmap(NULL, GM_JOURNAL_BYTES, PROT_READ | PROT_WRITE,
			       MAP_SHARED, keeper->journal_fd, 0);
	if (keeper->journal == MAP_FAILED) {
		keeper->journal = NULL;
		return -errno;
	}
	return 0;
}

void gm_keeper_start(struct gm_keeper *keeper)
{
	start_when_free(keeper);
}

void gm_keeper_free(struct gm_keeper *keeper)
{
	if (!keeper)
		return;
	gm_timer_stop(&keeper->d->loop, &keeper->timer);
	gm_timer_stop(&keeper->d->loop, &keeper->idle);
	gm_spare_free(keeper);
	gm_worker_users_hung_up(keeper);
	unwatch(keeper);
	TAILQ_REMOVE(&keeper->d->supervisor->all, keeper, entry);
	if (keeper->journal)
		munmap(keeper->journal, GM_JOURNAL_BYTES);
	if (keeper->journal_fd >= 0)
		close(keeper->journal_fd);
	if (keeper->waker >= 0)
		close(keeper->waker);
	free(keeper);
}

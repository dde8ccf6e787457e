/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/worker_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/fds.h"
#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/folder.h"
#include "agent/daemon/workers/supervisor.h"

#define MS           UINT64_C(1000000)
#define SECOND       UINT64_C(1000000000)

#define HANG_UP_NS   (1 * SECOND)  /* from a closed socket to the exit */
#define HANG_UP_CARD (10 * SECOND) /* likewise, with a context to give up */
#define STUCK_NS     (5 * SECOND)  /* from SIGKILL to the exit */
#define BACK_OFF_NS  (100 * MS)    /* after the second early death, times 4 */
#define BACK_OFF_MAX (30 * SECOND)
#define LONG_REST    (1 * SECOND) /* from here on a new session is refused */
#define SOON_NS      (100 * MS)   /* from the last session to a worker's end */

/* ---- the row ----------------------------------------------------------- */

int gm_worker_child_name(struct gm_worker_process *worker)
{
	char file[40];

	if (worker->group->runs_programs) {
		snprintf(file, sizeof(file), "row%u.uid%u.lock", worker->row,
			 worker->group->uid);
		snprintf(worker->of, sizeof(worker->of), " programs_of=%u",
			 worker->group->uid);
	} else {
		snprintf(file, sizeof(file), "row%u.lock", worker->row);
	}
	return gm_folder_path(worker->lock_path, worker->d->instance, file);
}

void gm_worker_child_show(const struct gm_worker_process *worker,
			  uint32_t state, const char *reason, int error)
{
	if (gm_worker_process_is_shown(worker))
		gm_devices_state(worker->d, worker->row, state, reason, error);
}

void gm_worker_child_show_pid(const struct gm_worker_process *worker, pid_t pid)
{
	if (gm_worker_process_is_shown(worker))
		gm_devices_worker(worker->d, worker->row, pid,
				  worker->restarts);
}

bool gm_worker_child_has_cards(const struct gm_worker_process *worker)
{
	return gm_worker_process_has_child(worker) &&
	       gm_device_is_opened(worker->d->devices->of[worker->row]) &&
	       (worker->n_joining > 0 ||
		gm_get(&worker->journal->has_cards) != 0);
}

bool gm_worker_child_drains_card(const struct gm_daemon *d)
{
	bool is = false;

	for (uint32_t row = 0; row < d->devices->n && !is; row++)
		is = gm_device_is_opened(d->devices->of[row]) &&
		     d->devices->of[row]->bars & GM_BAR_DRAIN;
	return is;
}

bool gm_worker_child_is_barred(const struct gm_worker_process *worker)
{
	return worker->d->devices->of[worker->row]->bars != 0;
}

/* ---- states ------------------------------------------------------------ */

void gm_worker_child_enter(struct gm_worker_process *worker,
			   enum gm_worker_process_state state,
			   uint64_t limit_ns)
{
	worker->state = state;
	worker->since_ns = gm_loop_now();
	if (limit_ns)
		gm_timer_set(worker->d->loop, &worker->timer,
			     worker->since_ns + limit_ns);
	else
		gm_timer_stop(worker->d->loop, &worker->timer);
}

uint64_t gm_worker_child_back_off(uint32_t deaths)
{
	return deaths < 2 ? 0
			  : gm_child_rest(BACK_OFF_NS, 4, deaths - 1,
					  BACK_OFF_MAX);
}

bool gm_worker_child_rests_long(const struct gm_worker_process *worker)
{
	return worker->state == GM_PROCESS_RESTING &&
	       gm_worker_child_back_off(worker->early_deaths) >= LONG_REST;
}

void gm_worker_child_unneeded(struct gm_worker_process *worker)
{
	uint64_t idle_ns = gm_worker_process_is_shown(worker)
				   ? worker->d->config->cuda_idle_ns
				   : 0;

	if (idle_ns > SOON_NS && gm_worker_child_has_cards(worker) &&
	    gm_worker_child_drains_card(worker->d))
		idle_ns = SOON_NS;
	if (worker->on_need && worker->state == GM_PROCESS_SERVING)
		gm_timer_set(worker->d->loop, &worker->idle,
			     gm_loop_now() + idle_ns);
}

void gm_worker_child_failing(struct gm_worker_process *worker)
{
	if (worker->times.failed_ns == 0)
		worker->times.failed_ns = gm_loop_now();
}

/* ---- the process and its socket ---------------------------------------- */

int gm_worker_child_send(struct gm_worker_process *worker,
			 const struct gm_wire *wire, const int *fds,
			 size_t n_fds)
{
	struct iovec record = { (void *)wire, sizeof(*wire) };
	struct msghdr message = { .msg_iov = &record, .msg_iovlen = 1 };
	union gm_fds_room room;

	gm_fds_put(&message, &room, fds, n_fds);
	if (sendmsg(worker->socket.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
	    sizeof(*wire))
		return 0;
	return -errno;
}

void gm_worker_child_kill(struct gm_worker_process *worker, const char *why)
{
	if (!gm_worker_process_has_child(worker) ||
	    worker->state == GM_PROCESS_ENDING ||
	    worker->state == GM_PROCESS_STUCK)
		return;
	if (!worker->why[0])
		snprintf(worker->why, sizeof(worker->why), "%s", why);
	gm_log(GM_LOG_WARNING,
	       worker->is_recovery ? "recovery_killed" : "worker_killed",
	       "row=%u%s pid=%d reason=%s", worker->row, worker->of,
	       (int)worker->child.pid, gm_quote(why).text);
	if (!worker->is_recovery)
		gm_worker_child_failing(worker);
	kill(worker->child.pid, SIGKILL);
	gm_worker_child_enter(worker, GM_PROCESS_ENDING, STUCK_NS);
}

void gm_worker_child_hung_up(struct gm_worker_process *worker)
{
	if (worker->socket.fd < 0)
		return;
	gm_loop_del(worker->d->loop, &worker->socket);
	close(worker->socket.fd);
	worker->socket.fd = -1;

	/* The process is about to exit; if it does not, it is killed. */
	if (worker->state != GM_PROCESS_ENDING &&
	    worker->state != GM_PROCESS_STUCK)
		gm_timer_set(worker->d->loop, &worker->timer,
			     gm_loop_now() + (worker->is_card ? HANG_UP_CARD
							      : HANG_UP_NS));
}

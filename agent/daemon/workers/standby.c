/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/standby.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/workers/exec.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/point.h"

#define MS         UINT64_C(1000000)
#define SECOND     UINT64_C(1000000000)

#define HANG_UP_NS (2 * SECOND)  /* from the closed socket to SIGKILL */
#define STUCK_NS   (5 * SECOND)  /* from SIGKILL to the exit */
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
	uint64_t wait = REST_NS;

	for (uint32_t n = worker->standby.deaths; n > 1 && wait < REST_MAX; n--)
		wait *= 4;
	enter(worker, GM_STANDBY_RESTING, wait < REST_MAX ? wait : REST_MAX);
}

static void close_socket(struct gm_worker_process *worker)
{
	struct gm_source *socket = &worker->standby.socket;

	if (socket->fd < 0)
		return;
	gm_loop_del(worker->d->loop, socket);
	close(socket->fd);
	socket->fd = -1;
}

static void close_pidfd(struct gm_worker_process *worker)
{
	struct gm_source *pidfd = &worker->standby.pidfd;

	if (pidfd->fd < 0)
		return;
	gm_loop_del(worker->d->loop, pidfd);
	close(pidfd->fd);
	pidfd->fd = -1;
}

static void end(struct gm_worker_process *worker, const char *why)
{
	struct gm_standby *standby = &worker->standby;

	if (why && !standby->why[0])
		snprintf(standby->why, sizeof(standby->why), "%s", why);
	close_socket(worker);
	enter(worker, GM_STANDBY_ENDING, HANG_UP_NS);
}

static void kill_now(struct gm_worker_process *worker)
{
	struct gm_standby *standby = &worker->standby;

	if (standby->killed) {
		gm_log(GM_LOG_ERROR, "standby_stuck", "row=%u pid=%d",
		       worker->row, (int)standby->child.pid);
		return;
	}
	standby->killed = true;
	kill(standby->child.pid, SIGKILL);
	enter(worker, GM_STANDBY_ENDING, STUCK_NS);
}

static void on_message(struct gm_worker_process *worker, struct gm_wire *wire)
{
	struct gm_standby *standby = &worker->standby;

	wire->text[sizeof(wire->text) - 1] = '\0';
	if (wire->type == GM_WIRE_FAILED && !standby->why[0]) {
		snprintf(standby->why, sizeof(standby->why), "%.*s",
			 (int)sizeof(standby->why) - 1, wire->text);
		standby->code = wire->code;
	} else if (wire->type == GM_WIRE_STANDBY &&
		   standby->state == GM_STANDBY_STARTING) {
		gm_log(GM_LOG_INFO, "standby_ready",
		       "row=%u pid=%d after_ms=%" PRIu64, worker->row,
		       (int)standby->child.pid,
		       (gm_loop_now() - standby->since_ns) / MS);
		standby->deaths = 0;
		enter(worker, GM_STANDBY_STANDBY, 0);
		GM_POINT("standby_ready");
	}
}

/* A standby sends at most two messages: FAILED or STANDBY. */
static void listen_to(struct gm_worker_process *worker)
{
	struct gm_wire wire;
	ssize_t n = -1;

	while (worker->standby.socket.fd >= 0) {
		n = recv(worker->standby.socket.fd, &wire, sizeof(wire),
			 MSG_DONTWAIT);
		if (n != (ssize_t)sizeof(wire))
			break;
		on_message(worker, &wire);
	}
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		end(worker, NULL);
}

static void socket_ready(struct gm_source *source, uint32_t events)
{
	(void)events;
	listen_to(gm_owner(source, struct gm_worker_process, standby.socket));
}

static void is_gone(struct gm_worker_process *worker, const char *how)
{
	struct gm_standby *standby = &worker->standby;
	bool well = standby->drain_sent && !standby->killed;

	gm_log(well ? GM_LOG_INFO : GM_LOG_WARNING,
	       well ? "standby_ended" : "standby_died",
	       "row=%u pid=%d code=%d reason=%s", worker->row,
	       (int)standby->child.pid, standby->code,
	       gm_quote(standby->why[0] ? standby->why : how).text);
	close_socket(worker);
	close_pidfd(worker);
	standby->deaths += !well;
	if (!standby->wanted)
		enter(worker, GM_STANDBY_NONE, 0);
	else if (well)
		start(worker);
	else
		rest(worker);
	standby->gone(worker);
}

static void pidfd_ready(struct gm_source *source, uint32_t events)
{
	struct gm_worker_process *worker =
		gm_owner(source, struct gm_worker_process, standby.pidfd);
	char how[64];
	int status;

	(void)events;
	if (worker->standby.socket.fd >= 0)
		listen_to(worker);
	if (gm_spawn_reap(&worker->standby.child, how, &status))
		is_gone(worker, how);
}

static void timer_fired(struct gm_timer *timer)
{
	struct gm_worker_process *worker =
		gm_owner(timer, struct gm_worker_process, standby.timer);

	switch (worker->standby.state) {
	case GM_STANDBY_RESTING:
		start(worker);
		break;
	case GM_STANDBY_STARTING:
		end(worker, "it did not get ready in time");
		break;
	case GM_STANDBY_ENDING:
		kill_now(worker);
		break;
	case GM_STANDBY_NONE:
	case GM_STANDBY_STANDBY:
		break;
	}
}

static int watch(struct gm_worker_process *worker)
{
	struct gm_standby *standby = &worker->standby;
	int error;

	standby->pidfd =
		(struct gm_source){ standby->child.pidfd, pidfd_ready };
	standby->socket =
		(struct gm_source){ standby->child.socket, socket_ready };
	error = gm_loop_add(worker->d->loop, &standby->pidfd, EPOLLIN);
	if (error == 0)
		error = gm_loop_add(worker->d->loop, &standby->socket, EPOLLIN);
	return error;
}

static void undo(struct gm_worker_process *worker)
{
	gm_spawn_undo(&worker->standby.child);
	close_socket(worker);
	close_pidfd(worker);
}

static void start(struct gm_worker_process *worker)
{
	struct gm_standby *standby = &worker->standby;
	int error = gm_worker_exec(worker, GM_EXEC_STANDBY, &standby->child);

	if (error == 0) {
		standby->killed = false;
		standby->drain_sent = false;
		standby->code = 0;
		standby->why[0] = '\0';
		error = watch(worker);
		if (error)
			undo(worker);
	}
	if (error) {
		gm_log(GM_LOG_WARNING, "standby_failed", "row=%u error=%s",
		       worker->row, gm_quote(strerror(-error)).text);
		standby->deaths++;
		rest(worker);
		return;
	}
	gm_log(GM_LOG_INFO, "standby_started", "row=%u pid=%d", worker->row,
	       (int)standby->child.pid);
	enter(worker, GM_STANDBY_STARTING, gm_worker_exec_limit(worker));
}

void gm_standby_init(struct gm_standby *standby,
		     void (*gone)(struct gm_worker_process *worker))
{
	standby->gone = gone;
	standby->pidfd.fd = -1;
	standby->socket.fd = -1;
	standby->timer.fired = timer_fired;
}

void gm_standby_want(struct gm_worker_process *worker)
{
	worker->standby.wanted = true;
	if (worker->standby.state == GM_STANDBY_NONE)
		start(worker);
}

int gm_standby_take(struct gm_worker_process *worker,
		    struct gm_child *ret_child)
{
	const struct gm_wire go = { .type = GM_WIRE_GO };
	struct gm_standby *standby = &worker->standby;

	if (standby->state != GM_STANDBY_STARTING &&
	    standby->state != GM_STANDBY_STANDBY)
		return -ENOENT;
	if (send(standby->socket.fd, &go, sizeof(go),
		 MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(go)) {
		end(worker, "it does not listen");
		return -ENOENT;
	}
	gm_log(GM_LOG_INFO, "standby_taken",
	       "row=%u pid=%d standby=%d age_ms=%" PRIu64, worker->row,
	       (int)standby->child.pid, standby->state == GM_STANDBY_STANDBY,
	       (gm_loop_now() - standby->since_ns) / MS);
	gm_loop_del(worker->d->loop, &standby->socket);
	gm_loop_del(worker->d->loop, &standby->pidfd);
	standby->socket.fd = -1;
	standby->pidfd.fd = -1;
	standby->wanted = false;
	enter(worker, GM_STANDBY_NONE, 0);
	*ret_child = standby->child;
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
	close_socket(worker);
	close_pidfd(worker);
	standby->state = GM_STANDBY_NONE;
}

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
#include "agent/daemon/daemon.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/point.h"

#define MS         UINT64_C(1000000)
#define SECOND     UINT64_C(1000000000)

#define HANG_UP_NS (2 * SECOND)  /* from the closed socket to SIGKILL */
#define STUCK_NS   (5 * SECOND)  /* from SIGKILL to the exit */
#define REST_NS    (1 * SECOND)  /* after a death, times 4 for each more */
#define REST_MAX   (60 * SECOND) /* cuInit serialises the whole machine */

static void start(struct gm_keeper *keeper);

static void enter(struct gm_keeper *keeper, enum gm_spare_state state,
		  uint64_t limit_ns)
{
	struct gm_spare *spare = &keeper->spare;

	spare->state = state;
	spare->since_ns = gm_loop_now();
	if (limit_ns)
		gm_timer_set(&keeper->d->loop, &spare->timer,
			     spare->since_ns + limit_ns);
	else
		gm_timer_stop(&keeper->d->loop, &spare->timer);
}

static void rest(struct gm_keeper *keeper)
{
	uint64_t wait = REST_NS;

	for (uint32_t n = keeper->spare.deaths; n > 1 && wait < REST_MAX; n--)
		wait *= 4;
	enter(keeper, GM_SPARE_RESTING, wait < REST_MAX ? wait : REST_MAX);
}

static void close_socket(struct gm_keeper *keeper)
{
	struct gm_source *socket = &keeper->spare.socket;

	if (socket->fd < 0)
		return;
	gm_loop_del(&keeper->d->loop, socket);
	close(socket->fd);
	socket->fd = -1;
}

static void close_pidfd(struct gm_keeper *keeper)
{
	struct gm_source *pidfd = &keeper->spare.pidfd;

	if (pidfd->fd < 0)
		return;
	gm_loop_del(&keeper->d->loop, pidfd);
	close(pidfd->fd);
	pidfd->fd = -1;
}

static void end(struct gm_keeper *keeper, const char *why)
{
	struct gm_spare *spare = &keeper->spare;

	if (why && !spare->why[0])
		snprintf(spare->why, sizeof(spare->why), "%s", why);
	close_socket(keeper);
	enter(keeper, GM_SPARE_ENDING, HANG_UP_NS);
}

static void kill_now(struct gm_keeper *keeper)
{
	struct gm_spare *spare = &keeper->spare;

	if (spare->killed) {
		gm_log(GM_LOG_ERROR, "spare_stuck", "row=%u pid=%d",
		       keeper->row, (int)spare->child.pid);
		return;
	}
	spare->killed = true;
	kill(spare->child.pid, SIGKILL);
	enter(keeper, GM_SPARE_ENDING, STUCK_NS);
}

static void heard(struct gm_keeper *keeper, struct gm_wire *wire)
{
	struct gm_spare *spare = &keeper->spare;

	wire->text[sizeof(wire->text) - 1] = '\0';
	if (wire->type == GM_WIRE_FAILED && !spare->why[0]) {
		snprintf(spare->why, sizeof(spare->why), "%.*s",
			 (int)sizeof(spare->why) - 1, wire->text);
		spare->code = wire->code;
	} else if (wire->type == GM_WIRE_STANDBY &&
		   spare->state == GM_SPARE_STARTING) {
		gm_log(GM_LOG_INFO, "spare_ready",
		       "row=%u pid=%d after_ms=%" PRIu64, keeper->row,
		       (int)spare->child.pid,
		       (gm_loop_now() - spare->since_ns) / MS);
		spare->deaths = 0;
		enter(keeper, GM_SPARE_STANDBY, 0);
		GM_POINT("spare_ready");
	}
}

/* It says two things in its life, and then no more. */
static void listen_to(struct gm_keeper *keeper)
{
	struct gm_wire wire;
	ssize_t n = -1;

	while (keeper->spare.socket.fd >= 0) {
		n = recv(keeper->spare.socket.fd, &wire, sizeof(wire),
			 MSG_DONTWAIT);
		if (n != (ssize_t)sizeof(wire))
			break;
		heard(keeper, &wire);
	}
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		end(keeper, NULL);
}

static void socket_ready(struct gm_source *source, uint32_t events)
{
	(void)events;
	listen_to(gm_owner(source, struct gm_keeper, spare.socket));
}

static void is_gone(struct gm_keeper *keeper, const char *how)
{
	struct gm_spare *spare = &keeper->spare;
	bool well = spare->told_end && !spare->killed;

	gm_log(well ? GM_LOG_INFO : GM_LOG_WARNING,
	       well ? "spare_ended" : "spare_died",
	       "row=%u pid=%d code=%d reason=%s", keeper->row,
	       (int)spare->child.pid, spare->code,
	       gm_quote(spare->why[0] ? spare->why : how).text);
	close_socket(keeper);
	close_pidfd(keeper);
	spare->deaths += !well;
	if (!spare->wanted)
		enter(keeper, GM_SPARE_NONE, 0);
	else if (well)
		start(keeper);
	else
		rest(keeper);
	gm_need_spare_gone(keeper);
}

static void pidfd_ready(struct gm_source *source, uint32_t events)
{
	struct gm_keeper *keeper =
		gm_owner(source, struct gm_keeper, spare.pidfd);
	char how[64];
	int status;

	(void)events;
	if (keeper->spare.socket.fd >= 0)
		listen_to(keeper);
	if (gm_spawn_reap(&keeper->spare.child, how, &status))
		is_gone(keeper, how);
}

static void timer_fired(struct gm_timer *timer)
{
	struct gm_keeper *keeper =
		gm_owner(timer, struct gm_keeper, spare.timer);

	switch (keeper->spare.state) {
	case GM_SPARE_RESTING:
		start(keeper);
		break;
	case GM_SPARE_STARTING:
		end(keeper, "it did not get ready in time");
		break;
	case GM_SPARE_ENDING:
		kill_now(keeper);
		break;
	case GM_SPARE_NONE:
	case GM_SPARE_STANDBY:
		break;
	}
}

static int watch(struct gm_keeper *keeper)
{
	struct gm_spare *spare = &keeper->spare;
	int error;

	spare->pidfd = (struct gm_source){ spare->child.pidfd, pidfd_ready };
	spare->socket = (struct gm_source){ spare->child.socket, socket_ready };
	error = gm_loop_add(&keeper->d->loop, &spare->pidfd, EPOLLIN);
	if (error == 0)
		error = gm_loop_add(&keeper->d->loop, &spare->socket, EPOLLIN);
	return error;
}

static void undo(struct gm_keeper *keeper)
{
	gm_spawn_undo(&keeper->spare.child);
	close_socket(keeper);
	close_pidfd(keeper);
}

static void start(struct gm_keeper *keeper)
{
	struct gm_spare *spare = &keeper->spare;
	int error = gm_launch(keeper, GM_LAUNCH_SPARE, &spare->child);

	if (error == 0) {
		spare->killed = false;
		spare->told_end = false;
		spare->code = 0;
		spare->why[0] = '\0';
		error = watch(keeper);
		if (error)
			undo(keeper);
	}
	if (error) {
		gm_log(GM_LOG_WARNING, "spare_failed", "row=%u error=%s",
		       keeper->row, gm_quote(strerror(-error)).text);
		spare->deaths++;
		rest(keeper);
		return;
	}
	gm_log(GM_LOG_INFO, "spare_started", "row=%u pid=%d", keeper->row,
	       (int)spare->child.pid);
	enter(keeper, GM_SPARE_STARTING, gm_patience_ready(keeper));
}

void gm_spare_init(struct gm_spare *spare)
{
	spare->pidfd.fd = -1;
	spare->socket.fd = -1;
	spare->timer.fired = timer_fired;
}

void gm_spare_want(struct gm_keeper *keeper)
{
	keeper->spare.wanted = true;
	if (keeper->spare.state == GM_SPARE_NONE)
		start(keeper);
}

int gm_spare_take(struct gm_keeper *keeper, struct gm_child *ret_child)
{
	const struct gm_wire go = { .type = GM_WIRE_GO };
	struct gm_spare *spare = &keeper->spare;

	if (spare->state != GM_SPARE_STARTING &&
	    spare->state != GM_SPARE_STANDBY)
		return -ENOENT;
	if (send(spare->socket.fd, &go, sizeof(go),
		 MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(go)) {
		end(keeper, "it does not listen");
		return -ENOENT;
	}
	gm_log(GM_LOG_INFO, "spare_taken",
	       "row=%u pid=%d standby=%d age_ms=%" PRIu64, keeper->row,
	       (int)spare->child.pid, spare->state == GM_SPARE_STANDBY,
	       (gm_loop_now() - spare->since_ns) / MS);
	gm_loop_del(&keeper->d->loop, &spare->socket);
	gm_loop_del(&keeper->d->loop, &spare->pidfd);
	spare->socket.fd = -1;
	spare->pidfd.fd = -1;
	spare->wanted = false;
	enter(keeper, GM_SPARE_NONE, 0);
	*ret_child = spare->child;
	return 0;
}

void gm_spare_end(struct gm_keeper *keeper)
{
	struct gm_spare *spare = &keeper->spare;

	spare->wanted = false;
	if (spare->state == GM_SPARE_RESTING)
		enter(keeper, GM_SPARE_NONE, 0);
	else if (spare->state == GM_SPARE_STARTING ||
		 spare->state == GM_SPARE_STANDBY) {
		spare->told_end = true;
		end(keeper, NULL);
	}
}

void gm_spare_free(struct gm_keeper *keeper)
{
	struct gm_spare *spare = &keeper->spare;

	gm_timer_stop(&keeper->d->loop, &spare->timer);
	close_socket(keeper);
	close_pidfd(keeper);
	spare->state = GM_SPARE_NONE;
}

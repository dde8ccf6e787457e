/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/health/probe.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/probe_wire.h"
#include "agent/daemon/base/environment.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"

#define MS           UINT64_C(1000000)
#define SECOND       UINT64_C(1000000000)

#define LOOK_NS      (1 * SECOND)
#define STOPPED_MAX  2u            /* looks that may find it stopped */
#define SILENT_NS    (30 * SECOND) /* and two refreshes: then it hangs */
#define HANG_UP_NS   (1 * SECOND)  /* from a closed socket to the exit */
#define STUCK_NS     (5 * SECOND)  /* from SIGKILL to the exit */
#define BACK_OFF_NS  (100 * MS)    /* after the second death, times 4 */
#define BACK_OFF_MAX (30 * SECOND)
#define WELL_NS      (10 * SECOND) /* a life that was none too short */
#define TURNS        64            /* records that are read in one go */
#define LAST_TURNS   4096          /* of a dead one's */
#define LAST_WAIT_NS (1 * SECOND)  /* for its exit at our end */

static void spawn(struct gm_probe *probe);

static void enter(struct gm_probe *probe, enum gm_probe_state state,
		  uint64_t limit_ns)
{
	probe->state = state;
	if (limit_ns != 0)
		gm_timer_set(probe->d->loop, &probe->timer,
			     gm_loop_now() + limit_ns);
	else
		gm_timer_stop(probe->d->loop, &probe->timer);
}

static void end(struct gm_probe *probe, const char *why)
{
	if (probe->state != GM_PROBE_RUNNING)
		return;
	snprintf(probe->why, sizeof(probe->why), "%s", why);
	gm_log(GM_LOG_WARNING, "probe_killed", "pid=%d reason=%s",
	       (int)probe->child.pid, gm_quote(why).text);
	kill(probe->child.pid, SIGKILL);
	enter(probe, GM_PROBE_ENDING, STUCK_NS);
}

/* ---- what it says ------------------------------------------------------ */

void gm_probe_close_texts(struct gm_probe_wire *wire)
{
	wire->text[sizeof(wire->text) - 1] = '\0';
	if (wire->type != GM_PROBE_DEVICE)
		return;
	wire->device.name[sizeof(wire->device.name) - 1] = '\0';
	wire->device.id[sizeof(wire->device.id) - 1] = '\0';
	wire->device.facts.cpus[sizeof(wire->device.facts.cpus) - 1] = '\0';
	wire->device.facts
		.mig_profile[sizeof(wire->device.facts.mig_profile) - 1] = '\0';
}

static void hear(struct gm_probe *probe, struct gm_probe_wire *wire)
{
	probe->last_record_ns = gm_loop_now();
	gm_probe_close_texts(wire);
	if (wire->type != GM_PROBE_ABSENT && probe->found_none_before) {
		probe->found_none_before = false;
		gm_log(GM_LOG_INFO, "driver_came", "pid=%d",
		       (int)probe->child.pid);
	}
	switch (wire->type) {
	case GM_PROBE_ABSENT:
		probe->found_none = true;
		if (probe->found_none_before)
			return;
		break;
	case GM_PROBE_BROKEN:
		snprintf(probe->why, sizeof(probe->why), "%s", wire->text);
		break;
	case GM_PROBE_LISTED:
		probe->has_listed = true;
		probe->said[0] = '\0';
		break;
	default:
		break;
	}
	probe->reader->record(probe->d, wire);
}

/* Returns 1 when there may be more, 0 when there is not, -EPIPE at the end. */
static int listen_once(struct gm_probe *probe)
{
	struct gm_probe_wire wire;
	ssize_t n;

	if (probe->socket.fd < 0)
		return -EPIPE;
	n = recv(probe->socket.fd, &wire, sizeof(wire),
		 MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return -EPIPE;
	if (n != sizeof(wire)) {
		end(probe, "it says what is no record: is it of this build?");
		return -EPIPE;
	}
	hear(probe, &wire);
	return 1;
}

static void hang_up(struct gm_probe *probe)
{
	if (probe->socket.fd < 0)
		return;
	gm_loop_del(probe->d->loop, &probe->socket);
	close(probe->socket.fd);
	probe->socket.fd = -1;
	/* The probe is about to exit; if it does not, it is killed. */
	if (probe->state == GM_PROBE_RUNNING)
		gm_timer_set(probe->d->loop, &probe->timer,
			     gm_loop_now() + HANG_UP_NS);
}

static void socket_ready(struct gm_source *source, uint32_t events)
{
	struct gm_probe *probe = gm_owner(source, struct gm_probe, socket);
	int ret = 1;

	(void)events;
	for (int i = 0; i < TURNS && ret > 0; i++)
		ret = listen_once(probe);
	if (ret < 0)
		hang_up(probe);
}

/* Is there one that could answer? */
static bool runs(const struct gm_daemon *d)
{
	return d->probe->state == GM_PROBE_RUNNING && d->probe->socket.fd >= 0;
}

int gm_probe_send(struct gm_daemon *d, uint32_t type, const uint8_t uuid[16],
		  uint32_t serial)
{
	struct gm_probe *probe = d->probe;
	struct gm_probe_wire wire = { .type = type, .serial = serial };
	int error;

	if (!runs(d))
		return -ESRCH;
	memcpy(wire.uuid, uuid, sizeof(wire.uuid));
	if (send(probe->socket.fd, &wire, sizeof(wire),
		 MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(wire))
		return 0;
	error = -errno;
	end(probe, "it does not take what it is told");
	return error;
}

/* ---- its end ----------------------------------------------------------- */

static void unwatch(struct gm_probe *probe)
{
	hang_up(probe);
	if (probe->pidfd.fd >= 0) {
		gm_loop_del(probe->d->loop, &probe->pidfd);
		close(probe->pidfd.fd);
		probe->pidfd.fd = -1;
	}
	gm_timer_stop(probe->d->loop, &probe->timer);
	gm_timer_stop(probe->d->loop, &probe->look);
}

static void rest(struct gm_probe *probe)
{
	uint64_t wait = BACK_OFF_NS;

	if (probe->early_deaths < 2)
		wait = 0;
	for (uint32_t i = 2; i < probe->early_deaths && wait < BACK_OFF_MAX;
	     i++)
		wait *= 4;
	if (wait > BACK_OFF_MAX)
		wait = BACK_OFF_MAX;
	gm_log(GM_LOG_INFO, "probe_rests", "deaths=%u wait_ms=%" PRIu64,
	       probe->early_deaths, wait / MS);
	/* Never from within the spawn that failed. */
	enter(probe, GM_PROBE_RESTING, wait != 0 ? wait : 1);
}

static void has_ended(struct gm_probe *probe, const char *how)
{
	const char *why = probe->why[0] != '\0' ? probe->why : how;

	unwatch(probe);
	if (probe->found_none) {
		probe->found_none_before = true;
		enter(probe, GM_PROBE_OFF,
		      probe->looks_again
			      ? 1
			      : probe->d->config->cuda_look_again_ns);
		probe->looks_again = false;
		probe->reader->ended(probe->d);
		return;
	}
	/* A driver that stays broken is told of once. */
	if (strcmp(probe->said, why) != 0)
		gm_log(GM_LOG_WARNING, "probe_died", "pid=%d reason=%s",
		       (int)probe->child.pid, gm_quote(why).text);
	snprintf(probe->said, sizeof(probe->said), "%s", why);
	if (probe->has_listed && gm_loop_now() - probe->since_ns > WELL_NS)
		probe->early_deaths = 0;
	probe->early_deaths++;
	probe->restarts++;
	enter(probe, GM_PROBE_RESTING, 0);
	probe->reader->ended(probe->d);
	if (!probe->has_listed)
		probe->reader->broken(probe->d, why);
	rest(probe);
}

static void pidfd_ready(struct gm_source *source, uint32_t events)
{
	struct gm_probe *probe = gm_owner(source, struct gm_probe, pidfd);
	char how[64];
	int status;

	(void)events;
	/* Its last words first. */
	for (int i = 0; i < LAST_TURNS && listen_once(probe) > 0; i++)
		;
	if (gm_spawn_reap(&probe->child, how, &status))
		has_ended(probe, how);
}

static void timer_fired(struct gm_timer *timer)
{
	struct gm_probe *probe = gm_owner(timer, struct gm_probe, timer);

	switch (probe->state) {
	case GM_PROBE_RUNNING:
		end(probe, "it closed its socket and went on");
		break;
	case GM_PROBE_ENDING:
		gm_log(GM_LOG_ERROR, "probe_stuck", "pid=%d",
		       (int)probe->child.pid);
		enter(probe, GM_PROBE_STUCK, 0);
		break;
	case GM_PROBE_RESTING:
	case GM_PROBE_OFF:
		spawn(probe);
		break;
	case GM_PROBE_STUCK:
		break;
	}
}

static void look(struct gm_timer *timer)
{
	struct gm_probe *probe = gm_owner(timer, struct gm_probe, look);
	uint64_t now = gm_loop_now();

	gm_timer_set(probe->d->loop, timer, now + LOOK_NS);
	if (!gm_spawn_stopped(&probe->child))
		probe->times_stopped = 0;
	else if (++probe->times_stopped >= STOPPED_MAX)
		end(probe, "stopped by a signal");
	if (probe->reader->is_watched(probe->d) &&
	    now - probe->last_record_ns >
		    SILENT_NS + 2 * probe->d->config->refresh_ns)
		end(probe, "nothing was heard of it");
}

/* ---- its start --------------------------------------------------------- */

static int watch(struct gm_probe *probe)
{
	int error;

	probe->pidfd = (struct gm_source){ probe->child.pidfd, pidfd_ready };
	probe->socket = (struct gm_source){ probe->child.socket, socket_ready };
	error = gm_loop_add(probe->d->loop, &probe->pidfd, EPOLLIN);
	if (error == 0)
		error = gm_loop_add(probe->d->loop, &probe->socket, EPOLLIN);
	return error;
}

/* No MPS daemon is to be found by what the probe asks of the driver. */
static int make_environment(const struct gm_daemon *d,
			    struct gm_environment *env)
{
	char none[256];
	int error;

	gm_environment_init(env);
	error = gm_environment_pass(env, d->config->cuda_pass);
	snprintf(none, sizeof(none), "%s/%s.no-mps", d->runtime_dir,
		 d->instance);
	if (error == 0 && !d->config->cuda_mps)
		error = gm_environment_set(env, "CUDA_MPS_PIPE_DIRECTORY",
					   none);
	return error;
}

static int start_child(struct gm_probe *probe)
{
	const struct gm_daemon *d = probe->d;
	struct gm_environment *env = malloc(sizeof(*env));
	char refresh[32], uid[16], gid[16];
	const char *argv[12];
	uint32_t n = 0;
	int error;

	if (env == NULL)
		return -ENOMEM;
	snprintf(refresh, sizeof(refresh), "%" PRIu64,
		 d->config->refresh_ns / MS);
	snprintf(uid, sizeof(uid), "%u", (unsigned int)d->config->worker_uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned int)d->config->worker_gid);
	argv[n++] = d->probe_path;
	argv[n++] = "--refresh";
	argv[n++] = refresh;
	argv[n++] = "--uid";
	argv[n++] = uid;
	argv[n++] = "--gid";
	argv[n++] = gid;
	if (d->config->cuda_library != NULL) {
		argv[n++] = "--library";
		argv[n++] = d->config->cuda_library;
	}
	if (d->config->cuda_sysfs != NULL) {
		argv[n++] = "--sysfs";
		argv[n++] = d->config->cuda_sysfs;
	}
	argv[n] = NULL;
	error = make_environment(d, env);
	if (error == 0)
		error = gm_spawn((char *const *)(uintptr_t)argv, env->of, -1,
				 -1, &probe->child);
	free(env);
	if (error != 0)
		return error;
	error = watch(probe);
	if (error != 0) {
		gm_spawn_undo(&probe->child);
		unwatch(probe);
	}
	return error;
}

static void spawn(struct gm_probe *probe)
{
	char why[GM_WHY_BYTES];
	int error;

	probe->why[0] = '\0';
	probe->has_listed = probe->found_none = false;
	probe->times_stopped = 0;
	error = start_child(probe);
	if (error != 0) {
		gm_why(why, error, "cannot start %.128s: %s",
		       probe->d->probe_path, strerror(-error));
		probe->early_deaths++;
		probe->reader->broken(probe->d, why);
		rest(probe);
		return;
	}
	probe->since_ns = probe->last_record_ns = gm_loop_now();
	if (!probe->found_none_before)
		gm_log(GM_LOG_INFO, "probe_started", "pid=%d restarts=%u",
		       (int)probe->child.pid, probe->restarts);
	enter(probe, GM_PROBE_RUNNING, 0);
	gm_timer_set(probe->d->loop, &probe->look, probe->since_ns + LOOK_NS);
	probe->reader->started(probe->d);
}

void gm_probe_start(struct gm_daemon *d, const struct gm_probe_reader *reader)
{
	struct gm_probe *probe = d->probe;

	probe->d = d;
	probe->reader = reader;
	probe->pidfd.fd = probe->socket.fd = -1;
	probe->timer.fired = timer_fired;
	probe->look.fired = look;
	spawn(probe);
}

void gm_probe_look_again(struct gm_daemon *d)
{
	struct gm_probe *probe = d->probe;

	if (probe->d == NULL || !d->is_open)
		return;
	if (probe->state == GM_PROBE_OFF)
		spawn(probe);
	else
		probe->looks_again = probe->found_none;
}

bool gm_probe_is_gone(const struct gm_daemon *d)
{
	return d->probe->state == GM_PROBE_OFF ||
	       d->probe->state == GM_PROBE_RESTING;
}

void gm_probe_exit(struct gm_daemon *d)
{
	struct gm_probe *probe = d->probe;
	uint64_t until = gm_loop_now() + LAST_WAIT_NS;
	char how[64];
	int status;

	if (probe->d == NULL)
		return;
	if (probe->pidfd.fd >= 0) {
		kill(probe->child.pid, SIGKILL);
		while (!gm_spawn_reap(&probe->child, how, &status) &&
		       gm_loop_now() < until) {
			struct pollfd p = { probe->pidfd.fd, POLLIN, 0 };

			poll(&p, 1, 50);
		}
	}
	enter(probe, GM_PROBE_OFF, 0);
	unwatch(probe);
}

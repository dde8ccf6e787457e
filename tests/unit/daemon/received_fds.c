/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The closing thread closes descriptors of clients: the last close of a memfd
 * frees all of its pages, of which there may be far more than were charged.  A
 * socket that lingers stands for a slow one.  Descriptors of workers belong to
 * their device, and are unused when no client waits any more: the loop does not
 * close them either.
 */

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/transaction.h"
#include "agent/daemon/sessions/registration.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/workers/worker_process.h"
#include "agent/daemon/workers/worker_request.h"
#include "shm/queue.h"
#include "tests/support/slow_close.h"
#include "tests/support/tap.h"

#define LIMIT_S  30 /* against hanging; a socket lingers for longer */
#define STRANGER 4711u

static struct gm_daemon *d;
static struct gm_control_server server;

/* Is what the agent itself gives back closed yet? */
static bool closer_works(void)
{
	struct pollfd p = { .events = 0 };
	int ends[2];
	bool is;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	gm_close_thread_close(&server.close_thread, ends[1]);
	p.fd = ends[0];
	is = poll(&p, 1, LIMIT_S * 1000 / 2) == 1;
	close(ends[0]);
	return is;
}

static void a_tensor_s(void)
{
	static const struct gm_change_kind kind = { .is_heavy = true };
	struct gm_mask_change *p = gm_mask_change_new(&kind);
	int other;

	if (!OK(p != NULL))
		return;
	p->change.d = d;
	p->change.uid = STRANGER;
	p->fd = lingering(&other);
	gm_mask_change_free(&p->change);
	OK(closer_works());
	close(other);
}

static void registered_memory_s(void)
{
	struct gm_user user = { .uid = STRANGER };
	struct gm_session session = { .server = &server, .user = &user };
	struct gm_connection c = { .server = &server,
				   .user = &user,
				   .session = &session };
	const struct gm_register ask = {
		.handle = gm_handle_make(1, GM_BUFFER_REGISTERED, 0, 1),
		.bytes = GM_PAGE,
	};
	struct gm_registration *reg;
	int other, fd = lingering(&other);

	TAILQ_INIT(&session.registrations);
	d->config->registrations_per_uid = 1;
	d->config->arena_bytes_per_uid = GM_PAGE;
	EQ(gm_registration_keep(&c, &ask, fd, GM_PAGE, &reg), 0);
	EQ(user.registrations, 1);
	gm_registrations_free(&session);
	EQ(user.registrations, 0);
	OK(closer_works());
	close(other);
}

/* Memory that no request waits for, or not any more. */
static void what_workers_sent(uint32_t type)
{
	struct gm_worker_group group = { .runs_programs = false };
	struct gm_worker_process worker = { .d = d, .group = &group };
	const struct gm_wire wire = { .type = type, .handle = 7 };
	int other, fd = lingering(&other);

	gm_mask_devices_init(d);
	OK(type == GM_WIRE_MASKED
		   ? gm_mask_worker_user.on_message(&worker, &wire, fd)
		   : gm_worker_requests_on_message(&worker, &wire, fd));
	close(other);
	OK(closer_works());
}

TAP_CASE()
{
	int other, fd = lingering(&other);

	if (other < 0) {
		close(fd);
		SKIP(1, "no socket lingers here");
		return tap_done();
	}
	close(other);
	close(fd);
	d = gm_daemon_new();
	if (!OK(d))
		return tap_done();
	server.d = d;
	alarm(LIMIT_S);
	gm_close_thread_init(&server.close_thread);
	d->server = &server;
	a_tensor_s();
	registered_memory_s();
	what_workers_sent(GM_WIRE_EXPORTED);
	what_workers_sent(GM_WIRE_MASKED);
	gm_daemon_free(d);
	return tap_done();
}

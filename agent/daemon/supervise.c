/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/keeper.h"

#define TICK_NS     UINT64_C(1000000000)
#define LAST_WAIT_S 1 /* for the exits of those killed at the end */

/* Told to workers only when it moves: their line stays theirs. */
static void limit_spinning(struct gm_supervisor *s, uint64_t now)
{
	uint32_t limit = gm_spin_limit(&s->spin, now);

	if (s->d->config.spin_limit != GM_CONFIG_SPIN_AUTO)
		limit = s->d->config.spin_limit;
	if (gm_get(&s->commons->spin_limit) == limit)
		return;
	gm_put(&s->commons->spin_limit, limit);
	gm_log(GM_LOG_INFO, "spin_limit", "workers=%u", limit);
}

static void tick(struct gm_timer *timer)
{
	struct gm_supervisor *s = gm_owner(timer, struct gm_supervisor, tick);
	uint64_t now = gm_loop_now();

	limit_spinning(s, now);
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		if (s->keepers[row])
			gm_keeper_look(s->keepers[row]);
	}
	gm_timer_set(&s->d->loop, &s->tick, now + TICK_NS);
}

static int open_commons(struct gm_supervisor *s)
{
	s->commons_fd = gm_spawn_memfd("gpumap-commons", sizeof(*s->commons));
	if (s->commons_fd < 0)
		return s->commons_fd;
	s->commons = mmap(NULL, sizeof(*s->commons), PROT_READ | PROT_WRITE,
			  MAP_SHARED, s->commons_fd, 0);
	if (s->commons == MAP_FAILED) {
		s->commons = NULL;
		return -errno;
	}
	return 0;
}

static int open_keepers(struct gm_supervisor *s)
{
	const struct gm_devices *devices = &s->d->devices;

	for (uint32_t row = 0; row < devices->n; row++) {
		int error;

		if (!devices->of[row]->present ||
		    !gm_device_serves(devices->of[row]))
			continue;
		error = gm_keeper_make(s->d, row, &s->keepers[row]);
		if (error)
			return error;
	}
	return 0;
}

int gm_supervisor_start(struct gm_daemon *d)
{
	struct gm_supervisor *s = calloc(1, sizeof(*s));
	int error = s ? 0 : -ENOMEM;

	if (s) {
		d->supervisor = s;
		s->d = d;
		s->commons_fd = -1;
		s->tick.fired = tick;
		signal(SIGCHLD, SIG_DFL); /* or nobody could be waited for */
		error = open_commons(s);
	}
	if (error == 0)
		error = open_keepers(s);
	if (error) {
		gm_log(GM_LOG_ERROR, "supervisor_failed", "error=%s",
		       gm_quote(strerror(-error)).text);
		gm_supervisor_exit(d);
		return error;
	}

	gm_spin_init(&s->spin, NULL,
		     (uint32_t)gm_idset_count(&d->allowed.cpus));
	tick(&s->tick);
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		if (s->keepers[row])
			gm_keeper_start(s->keepers[row]);
	}
	return 0;
}

void gm_supervisor_drain(struct gm_daemon *d)
{
	struct gm_supervisor *s = d->supervisor;

	if (!s || s->draining)
		return;
	s->draining = true;
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		if (s->keepers[row])
			gm_keeper_drain(s->keepers[row]);
	}
	gm_daemon_drained(d);
}

bool gm_supervisor_drained(const struct gm_daemon *d)
{
	const struct gm_supervisor *s = d->supervisor;

	for (uint32_t row = 0; s && row < GM_ROWS; row++) {
		if (s->keepers[row] && s->keepers[row]->state != GM_KEEPER_OFF)
			return false;
	}
	return true;
}

/* Those who would not end by themselves have had their time. */
static void kill_all(struct gm_supervisor *s)
{
	uint64_t until = gm_loop_now() + LAST_WAIT_S * TICK_NS;

	for (uint32_t row = 0; row < GM_ROWS; row++) {
		if (s->keepers[row] && s->keepers[row]->pidfd.fd >= 0)
			gm_keeper_kill(s->keepers[row], "agent is ending");
	}
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		struct gm_keeper *keeper = s->keepers[row];
		char how[64];
		int status;

		if (!keeper || keeper->pidfd.fd < 0)
			continue;
		while (!gm_spawn_reap(&keeper->child, how, &status) &&
		       gm_loop_now() < until) {
			struct pollfd p = { keeper->pidfd.fd, POLLIN, 0 };

			poll(&p, 1, 50);
		}
	}
}

void gm_supervisor_exit(struct gm_daemon *d)
{
	struct gm_supervisor *s = d->supervisor;

	if (!s)
		return;
	kill_all(s);
	gm_timer_stop(&d->loop, &s->tick);
	for (uint32_t row = 0; row < GM_ROWS; row++)
		gm_keeper_free(s->keepers[row]);
	if (s->commons)
		munmap(s->commons, sizeof(*s->commons));
	if (s->commons_fd >= 0)
		close(s->commons_fd);
	free(s);
	d->supervisor = NULL;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/manager.h"
#include "agent/common/read_file.h"
#include "agent/sync/config.h"
#include "agent/sync/server.h"

#define NS_PER_MS     UINT64_C(1000000)
#define SLEEP_MOST_NS UINT64_C(500000000)
#define EVENTS        64
#define BOOT_ID       "/proc/sys/kernel/random/boot_id"

/* ---- what parts use ------------------------------------------------------ */

uint64_t gm_sync_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

bool gm_sync_agent_answers(const struct gm_sync *sync)
{
	struct gpumap_health health = { .size = sizeof(health) };

	return sync->map != NULL && gpumap_health(sync->map, &health) == 0 &&
	       health.stale == 0 && health.state == GPUMAP_READY;
}

int gm_sync_add(struct gm_sync *sync, struct gm_sync_source *source)
{
	struct epoll_event in = { .events = EPOLLIN, .data.ptr = source };

	return epoll_ctl(sync->epoll, EPOLL_CTL_ADD, source->fd, &in) != 0
		       ? -errno
		       : 0;
}

void gm_sync_remove(struct gm_sync *sync, struct gm_sync_source *source)
{
	epoll_ctl(sync->epoll, EPOLL_CTL_DEL, source->fd, NULL);
}

void gm_sync_lease_changed(struct gm_sync *sync)
{
	for (size_t i = 0; gm_sync_parts[i] != NULL; i++)
		if (gm_sync_parts[i]->lease != NULL)
			gm_sync_parts[i]->lease(sync);
}

void gm_sync_agent_changed(struct gm_sync *sync)
{
	for (size_t i = 0; gm_sync_parts[i] != NULL; i++)
		if (gm_sync_parts[i]->agent != NULL)
			gm_sync_parts[i]->agent(sync);
}

/* ---- the loop ------------------------------------------------------------ */

/* When the next part is due. */
static uint64_t next_due(const struct gm_sync *sync)
{
	uint64_t due_ns = gm_sync_server_due(sync->server);

	for (size_t i = 0; gm_sync_parts[i] != NULL; i++) {
		uint64_t part_ns = gm_sync_parts[i]->due != NULL
					   ? gm_sync_parts[i]->due(sync)
					   : GM_SYNC_NEVER;

		if (part_ns < due_ns)
			due_ns = part_ns;
	}
	return due_ns;
}

static void tick(struct gm_sync *sync)
{
	uint64_t now_ns = gm_sync_now();

	if (gm_sync_server_due(sync->server) <= now_ns)
		gm_sync_server_tick(sync->server, now_ns);
	for (size_t i = 0; gm_sync_parts[i] != NULL; i++) {
		const struct gm_sync_part *part = gm_sync_parts[i];

		if (part->due != NULL && part->due(sync) <= now_ns)
			part->tick(sync, now_ns);
	}
}

/* Sleep until something is to do, at most as long as the service manager may
 * wait.  A millisecond that has begun counts. */
static void wait_and_serve(struct gm_sync *sync)
{
	struct epoll_event events[EVENTS];
	uint64_t now_ns = gm_sync_now(), due_ns = next_due(sync), rest_ns;
	int n;

	rest_ns = due_ns > now_ns ? due_ns - now_ns : 0;
	if (rest_ns > SLEEP_MOST_NS)
		rest_ns = SLEEP_MOST_NS;
	n = epoll_wait(sync->epoll, events, EVENTS,
		       (int)((rest_ns + NS_PER_MS - 1) / NS_PER_MS));
	for (int i = 0; i < n; i++) {
		struct gm_sync_source *source = events[i].data.ptr;

		source->ready(sync, source);
	}
	tick(sync);
	gm_sync_server_reap(sync->server);
}

static void store_ready(struct gm_sync *sync, struct gm_sync_source *source)
{
	(void)source;
	gm_store_dispatch(sync->store);
}

static void told_to_end(struct gm_sync *sync, struct gm_sync_source *source)
{
	struct signalfd_siginfo signal;

	if (read(source->fd, &signal, sizeof(signal)) != sizeof(signal))
		return;
	gm_log(GM_LOG_INFO, "ending", "signal=%u", signal.ssi_signo);
	sync->ends = true;
}

static void loop(struct gm_sync *sync, struct gm_manager *manager)
{
	struct gm_sync_source store = { gm_store_fd(sync->store), store_ready };
	struct gm_sync_source signals = { .ready = told_to_end };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (gm_sync_add(sync, &store) != 0 ||
	    gm_sync_add(sync, &signals) != 0) {
		gm_log(GM_LOG_ERROR, "loop", "why=%s",
		       gm_quote(strerror(errno)).text);
		return;
	}
	gm_manager_ready(manager);
	while (!sync->ends) {
		gm_manager_feed(manager, gm_sync_now());
		wait_and_serve(sync);
	}
	gm_manager_stopping(manager);
	close(signals.fd);
}

/* ---- begin and end ------------------------------------------------------- */

struct lease {
	struct gm_store_lease lease;
	struct gm_sync *sync;
};

static void lease_event(struct gm_store_lease *lease, const char *why)
{
	struct gm_sync *sync = ((struct lease *)lease)->sync;

	if (lease->held)
		gm_log(GM_LOG_INFO, "lease_held", "ttl_ms=%u", lease->ttl_ms);
	else
		gm_log(GM_LOG_WARNING, "lease_lost", "why=%s",
		       gm_quote(why).text);
	gm_sync_lease_changed(sync);
}

static int open_store(struct gm_sync *sync)
{
	char why[GM_STORE_WHY_BYTES] = "";
	int ret = gm_sync_config_store(sync->config, &sync->store, why);

	if (ret == 0)
		ret = gm_store_lease(sync->store, sync->lease);
	if (ret != 0)
		gm_log(GM_LOG_ERROR, "store", "why=%s",
		       gm_quote(why[0] != '\0' ? why : strerror(-ret)).text);
	return ret;
}

/* Name this process, and this start of the machine. */
static int name_instance(struct gm_sync *sync)
{
	char text[2 * GM_SYNC_BOOT_BYTES] = "";
	uint64_t number = 0;

	while (getrandom(&number, sizeof(number), 0) != sizeof(number))
		;
	snprintf(sync->instance, sizeof(sync->instance), "%016" PRIx64, number);
	if (gm_read_file(BOOT_ID, text, sizeof(text)) < 0) {
		gm_log(GM_LOG_ERROR, "start", "why=%s",
		       gm_quote("this process needs " BOOT_ID ": mount /proc")
			       .text);
		return -EIO;
	}
	snprintf(sync->boot, sizeof(sync->boot), "%.*s",
		 (int)strcspn(text, "\n"), text);
	return 0;
}

/* Returns 0 or a negative errno; *@ret_n are open in any case. */
static int open_parts(struct gm_sync *sync, size_t *ret_n)
{
	int ret = 0;

	for (*ret_n = 0; ret == 0 && gm_sync_parts[*ret_n] != NULL;) {
		ret = gm_sync_parts[*ret_n]->open(sync);
		*ret_n += ret == 0;
	}
	if (ret != 0)
		gm_log(GM_LOG_ERROR, "start", "why=%s",
		       gm_quote(strerror(-ret)).text);
	return ret;
}

int gm_sync_run(const struct gm_sync_config *config, struct gm_manager *manager)
{
	struct lease lease = { .lease = { .event = lease_event } };
	struct gm_sync sync = { .config = config, .lease = &lease.lease };
	size_t n_parts = 0;
	int ret;

	lease.lease.ttl_ms = (uint32_t)(config->ttl_ns / NS_PER_MS);
	lease.sync = &sync;
	sync.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (sync.epoll < 0)
		return -errno;
	ret = name_instance(&sync);
	if (ret == 0)
		ret = gm_sync_server_open(&sync, &sync.server);
	if (ret == 0)
		ret = open_store(&sync);
	if (ret == 0)
		ret = open_parts(&sync, &n_parts);
	if (ret == 0) {
		gm_log(GM_LOG_INFO, "ready",
		       "cluster=%s node=%s instance=%s pid=%d", config->cluster,
		       config->node, sync.instance, (int)getpid());
		loop(&sync, manager);
	}
	gm_sync_server_close(sync.server);
	gm_store_close(sync.store);
	while (n_parts > 0)
		gm_sync_parts[--n_parts]->close(&sync);
	close(sync.epoll);
	return ret;
}

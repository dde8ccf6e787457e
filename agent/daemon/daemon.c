/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/manager.h"
#include "agent/common/node_clock.h"
#include "agent/common/numa_bind.h"
#include "agent/daemon/account/credit.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/fd_limits.h"
#include "agent/daemon/base/fd_store.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/uring.h"
#include "agent/daemon/cluster/cluster.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/dummy.h"
#include "agent/daemon/devices/home_node.h"
#include "agent/daemon/devices/p2p.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/health/cards.h"
#include "agent/daemon/health/drain.h"
#include "agent/daemon/health/vendors.h"
#include "agent/daemon/health/watchers.h"
#include "agent/daemon/map/calibration.h"
#include "agent/daemon/map/cordon.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/masks/publish.h"
#include "agent/daemon/masks/republish.h"
#include "agent/daemon/masks/state.h"
#include "agent/daemon/meshes/epochs.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/folder.h"
#include "agent/daemon/segment/lock.h"
#include "agent/daemon/segment/older.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/sessions/listener.h"
#include "agent/daemon/sessions/map_waits.h"
#include "agent/daemon/sharing/listed.h"
#include "agent/daemon/sharing/share_store.h"
#include "agent/daemon/state/state.h"
#include "agent/daemon/subscribers.h"
#include "agent/daemon/workers/job_figures.h"
#include "agent/daemon/workers/supervisor.h"
#include "agent/files/nodefile.h"
#include "gpumap.h"

#define HEARTBEAT_NS      UINT64_C(500000000)
#define PATIENCE          6u /* with what is being written at the end */
#define PATIENCE_LEAST_NS UINT64_C(2000000000)

/* All of gpumapd's state.  Modules see @d alone. */
struct whole {
	struct gm_daemon d;

	struct gm_config config;
	struct gm_nodefile dummies;
	struct gm_numa_allowed allowed;
	struct gm_loop loop;
	struct gm_manager manager;
	struct gm_fd_store fd_store;
	struct gm_segment segment;
	struct gm_directory directory;
	struct gm_numa_segments nodes;
	struct gm_mask_devices mask_devices;
	struct gm_holders holders;
	struct gm_devices devices;
	struct gm_watchers watchers;
	struct gm_cards cards;
	struct gm_vendors vendors;
	struct gm_paths paths;
	struct gm_ledger ledger;
	struct gm_credits credits;
	struct gm_wait_line line;
	struct gm_state_files state;
	struct gm_epochs epochs;
	struct gm_io_thread io_thread;
	struct gm_io_thread heavy_thread;
	struct gm_changes changes;
	struct gm_listed_things listed;
	struct gm_cluster_copies cluster;

	int lock;
	struct gm_source signals;
	struct gm_timer heartbeat;
	struct gm_timer refresh;
	struct gm_timer drain_limit;
	struct gm_fd_limits_of checked; /* whose descriptors were counted */
	bool lost_name;                 /* event=name_lost has been said */
	bool announced;                 /* event=ready has been said */
	int status;                     /* to exit with */
};

static struct whole *whole_of(struct gm_daemon *d)
{
	return gm_owner(d, struct whole, d);
}

struct gm_daemon *gm_daemon_new(void)
{
	struct whole *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->d.config = &w->config;
	w->d.dummies = &w->dummies;
	w->d.allowed = &w->allowed;
	w->d.loop = &w->loop;
	w->d.manager = &w->manager;
	w->manager.socket = w->manager.listener = -1;
	w->d.fd_store = &w->fd_store;
	w->d.segment = &w->segment;
	w->d.directory = &w->directory;
	w->d.nodes = &w->nodes;
	w->d.mask_devices = &w->mask_devices;
	w->d.holders = &w->holders;
	w->d.devices = &w->devices;
	w->d.watchers = &w->watchers;
	w->d.cards = &w->cards;
	w->d.vendors = &w->vendors;
	w->d.paths = &w->paths;
	w->d.ledger = &w->ledger;
	w->d.credits = &w->credits;
	w->d.line = &w->line;
	w->d.state = &w->state;
	w->d.epochs = &w->epochs;
	w->d.io_thread = &w->io_thread;
	w->d.heavy_thread = &w->heavy_thread;
	w->d.changes = &w->changes;
	w->d.listed = &w->listed;
	w->d.cluster = &w->cluster;
	gm_wait_line_init(&w->d);
	return &w->d;
}

void gm_daemon_free(struct gm_daemon *d)
{
	free(whole_of(d));
}

static int failed(const char *event, const char *why, int status)
{
	gm_log(GM_LOG_ERROR, event, "why=%s", gm_quote(why).text);
	return status;
}

static void on_heartbeat(struct gm_timer *timer)
{
	struct whole *w = gm_owner(timer, struct whole, heartbeat);
	struct gm_daemon *d = &w->d;

	gm_segment_heartbeat(d->segment);
	if (gm_segment_is_ours(d->segment))
		gm_manager_feed(d->manager, gm_node_clock_now());
	gm_timer_set(d->loop, timer, gm_loop_now() + HEARTBEAT_NS);
}

static uint32_t count_cards(const struct gm_daemon *d)
{
	uint32_t n = 0;

	for (uint32_t row = 0; row < d->devices->n; row++)
		n += gm_device_can(d->devices->of[row], GPUMAP_DEVICE_CARD);
	return n;
}

/* Anew where more rows or processes have come since the log said so. */
static void check_files(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);
	struct gm_fd_limits_of of = {
		.rows = d->devices->n,
		.cards = count_cards(d),
		.kept = d->manager->keeps_most,
		.processes = gm_share_store_processes(d),
	};

	if (w->checked.rows == of.rows && w->checked.processes >= of.processes)
		return;
	w->checked = of;
	gm_fd_limits_check(d->config, &of);
}

/* Clients that attach from now on get the file over the control socket. */
static void check_names(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);

	if (w->lost_name || (gm_folder_has(d->segment->fd) &&
			     gm_numa_segments_have_names(d->nodes)))
		return;
	w->lost_name = true;
	gm_log(GM_LOG_WARNING, "name_lost", "path=%s why=%s remedy=%s",
	       d->segment->path,
	       gm_quote("it was removed, or a node segment beside it: the next "
			"gpumapd will not find it")
		       .text,
	       gm_quote("find out what removes files there, as logind does "
			"where RemoveIPC is yes; then start gpumapd again")
		       .text);
}

static void tell_status(struct gm_daemon *d)
{
	char status[GM_MANAGER_STATUS_BYTES], models[GM_LISTED_BYTES];
	uint32_t ready = 0;

	for (uint32_t row = 0; row < d->devices->n; row++)
		ready += d->devices->of[row]->moving.state ==
			 GPUMAP_DEVICE_READY;
	gm_listed_tell(d, models);
	snprintf(status, sizeof(status),
		 "%s; %u of %u rows ready; %u sessions%s",
		 d->draining ? "ending" : "serving", ready, d->devices->n,
		 d->server != NULL ? d->server->n_sessions : 0, models);
	gm_manager_status(d->manager, status);
}

static void on_refresh(struct gm_timer *timer)
{
	struct whole *w = gm_owner(timer, struct whole, refresh);
	struct gm_daemon *d = &w->d;

	check_files(d);
	check_names(d);
	gm_devices_refresh(d);
	gm_job_figures_refresh(d);
	tell_status(d);
	gm_timer_set(d->loop, timer, gm_loop_now() + d->config->refresh_ns);
}

static void on_drain_limit(struct gm_timer *timer)
{
	struct whole *w = gm_owner(timer, struct whole, drain_limit);
	struct gm_daemon *d = &w->d;

	gm_log(GM_LOG_WARNING, "drain_limit", "drain_ms=%llu",
	       (unsigned long long)(d->config->drain_ns / 1000000));
	gm_loop_stop(d->loop);
}

/* A request to end: refuse what is new, let what runs finish within
 * config.drain_ns, then leave.  More than one changes nothing. */
static void drain(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);

	if (d->draining)
		return;
	d->draining = true;
	gm_segment_state(d->segment, GM_STATE_DRAINING);
	gm_manager_stopping(d->manager);
	tell_status(d);
	gm_log(GM_LOG_INFO, "draining", "instance=%s drain_ms=%llu",
	       d->instance,
	       (unsigned long long)(d->config->drain_ns / 1000000));
	gm_timer_set(d->loop, &w->drain_limit,
		     gm_loop_now() + d->config->drain_ns);
	gm_listed_drain(d);
	gm_listener_drain(d);
	gm_supervisor_drain(d);
}

static void on_signal(struct gm_source *source, uint32_t events)
{
	struct whole *w = gm_owner(source, struct whole, signals);
	struct gm_daemon *d = &w->d;
	struct signalfd_siginfo info;

	(void)events;
	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		gm_log(GM_LOG_WARNING, "reload_refused",
		       "why=\"the configuration is read at start only: "
		       "restart, the segment and its readers stay\"");
		gm_watchers_look_again(d);
		gm_vendors_look_again(d);
		return;
	}
	gm_log(GM_LOG_INFO, "signal", "signal=%u from=%u", info.ssi_signo,
	       info.ssi_pid);
	drain(d);
}

/* Children get their mask back before they exec. */
static int start_loop(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);
	sigset_t signals;
	int ret;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);

	ret = gm_loop_init(d->loop);
	if (ret != 0)
		return failed("loop", strerror(-ret), GM_EXIT_FAILURE);
	w->heartbeat.fired = on_heartbeat;
	w->refresh.fired = on_refresh;
	w->drain_limit.fired = on_drain_limit;
	w->signals.ready = on_signal;
	w->signals.fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	ret = w->signals.fd >= 0 ? gm_loop_add(d->loop, &w->signals, EPOLLIN)
				 : -errno;
	if (ret != 0)
		return failed("signals", strerror(-ret), GM_EXIT_FAILURE);
	return 0;
}

static void on_numa_warning(const char *text)
{
	gm_log(GM_LOG_WARNING, "numa", "why=%s", gm_quote(text).text);
}

/* The node to run on, and its CPUs that we may use; -1: none. */
static int choose_node(const struct gm_daemon *d, struct gm_idset *ret_cpus)
{
	int node = d->config->node;

	if (node == GM_CONFIG_NODE_AUTO)
		return gm_home_node(NULL, d->config, d->allowed, ret_cpus);
	if (node == GM_CONFIG_NODE_NONE)
		return -1;
	if (gm_numa_bind_node_cpus(NULL, node, ret_cpus) > 0)
		gm_idset_and(ret_cpus, &d->allowed->cpus);
	return node;
}

/* Before anything large is allocated, the segment for instance. */
static void pin(struct gm_daemon *d)
{
	struct gm_idset cpus = { 0 };
	int node, ret;

	gm_numa_bind_set_warn(on_numa_warning);
	gm_numa_bind_allowed(NULL, d->allowed);
	node = choose_node(d, &cpus);
	if (node < 0)
		return;
	ret = gm_numa_bind_self(NULL, node, &cpus, NULL);
	if (ret == 0)
		gm_log(GM_LOG_INFO, "pinned", "node=%d", node);
	else
		gm_log(GM_LOG_WARNING, "not_pinned", "node=%d why=%s", node,
		       gm_quote(gm_numa_bind_why(ret)).text);
}

static int open_segment(struct gm_daemon *d)
{
	struct gm_adopted_state *past = malloc(sizeof(*past));
	char why[GM_WHY_BYTES] = "";
	int ret;

	if (past == NULL)
		return failed("segment", "out of memory", GM_EXIT_FAILURE);
	ret = gm_segment_open(d->instance, d->config->segment_bytes, past, why,
			      d->segment);
	if (ret != 0) {
		free(past);
		return failed("segment", why[0] ? why : strerror(-ret),
			      gm_exit_status(ret));
	}
	d->segment->loop = d->loop;
	d->directory->heap = past->heap;
	memcpy(d->directory->objects, past->objects, sizeof(past->objects));
	memcpy(d->directory->rows, past->rows, sizeof(past->rows));
	memcpy(d->holders->table, past->holders, sizeof(past->holders));
	free(past);
	gm_log(GM_LOG_INFO, d->segment->adopted ? "adopted" : "created",
	       "path=%s epoch=%llu bytes=%llu", d->segment->path,
	       (unsigned long long)d->segment->epoch,
	       (unsigned long long)d->segment->map.bytes);

	if (d->segment->map.bytes !=
	    d->config->segment_bytes / GM_UNIT * GM_UNIT)
		gm_log(GM_LOG_WARNING, "size_kept",
		       "bytes=%llu why=\"segment.size counts for a new "
		       "segment: "
		       "stop, gpumapd --remove, start\"",
		       (unsigned long long)d->segment->map.bytes);

	/* Before anything that holders let go of is free. */
	if (d->segment->adopted)
		ret = gm_masks_adopt(d, why);
	else
		gm_numa_segments_remove(d->instance);
	if (ret != 0)
		return failed("masks", why, gm_exit_status(ret));
	ret = gm_pins_adopt(d);
	if (ret != 0)
		return failed("holders", strerror(-ret), GM_EXIT_FAILURE);
	return 0;
}

static int publish_all(struct gm_daemon *d)
{
	char why[GM_WHY_BYTES] = "";
	int ret;

	ret = gm_epochs_start(d, why);
	if (ret != 0)
		return failed("state", why, gm_exit_status(ret));
	ret = gm_devices_start(d, why);
	if (ret != 0)
		return failed("devices", why[0] ? why : strerror(-ret),
			      ret == -EINVAL || ret == -ENODEV
				      ? GM_EXIT_CONFIG
				      : GM_EXIT_FAILURE);
	gm_cordons_start(d);
	gm_calibration_start(d);
	ret = gm_ledger_adopt(d);
	if (ret != 0)
		return failed("ledger", strerror(-ret), GM_EXIT_FAILURE);
	gm_masks_drop_lost(d);
	/* Memory of devices went with the previous agent. */
	for (uint32_t row = 0; row < d->devices->n; row++)
		gm_mask_devices_recheck(d, row);
	ret = gm_state_restore(d, why);
	if (ret != 0)
		return failed("state", why, gm_exit_status(ret));
	gm_epochs_give_all(d);
	return 0;
}

static int read_dummies(struct gm_daemon *d)
{
	char why[GM_CONFIG_WHY_BYTES];

	if (gm_dummyrows_read(d, why) != 0)
		return failed("config", why, GM_EXIT_CONFIG);
	return 0;
}

/* From here on clients may read and ask. */
static int open_rows(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);
	int ret, status = publish_all(d);

	if (status != 0)
		return status;
	ret = gm_io_thread_start(d->io_thread, d->loop, "files");
	if (ret == 0)
		ret = gm_io_thread_start(d->heavy_thread, d->loop, "masks");
	if (ret != 0)
		return failed("io_thread", strerror(-ret), GM_EXIT_FAILURE);
	gm_mask_changes_recheck(d);
	on_refresh(&w->refresh);
	if (gm_supervisor_start(d) != 0 || gm_listener_start(d) != 0)
		return GM_EXIT_FAILURE; /* the reason has been logged */
	ret = gm_share_store_restore(d);
	if (ret != 0)
		return failed("shares", strerror(-ret), GM_EXIT_FAILURE);
	gm_segment_state(d->segment, GM_STATE_READY);
	d->is_open = true;
	gm_log(GM_LOG_INFO, "open", "instance=%s epoch=%llu rows=%u pid=%d",
	       d->instance, (unsigned long long)d->segment->epoch,
	       d->devices->n, (int)getpid());
	return 0;
}

/* A folder for the workers' compilers, where the configuration names none. */
static void offer_cache(struct gm_daemon *d, const char *name, char **config)
{
	char path[GM_STATE_PATH_BYTES];
	int error;

	if (*config)
		return;
	error = gm_state_dir_of_workers(&d->state->dir, name,
					d->config->worker_uid,
					d->config->worker_gid, path);
	if (error == 0)
		*config = strdup(path);
	else
		gm_log(GM_LOG_WARNING, "cache_missing", "path=%s reason=%s",
		       gm_quote(path).text, gm_quote(strerror(-error)).text);
}

/* Returns whether there may be cards. */
static bool offer_caches(struct gm_daemon *d)
{
	static const char *const names[GM_CONFIG_DRIVERS] = {
		[GM_CONFIG_OPENCL] = "opencl-cache",
		[GM_CONFIG_VULKAN] = "vulkan-cache",
	};
	bool has_cards = d->config->cuda_enabled != GM_CONFIG_CUDA_OFF;

	if (has_cards)
		offer_cache(d, "cuda-cache", &d->config->cuda_cache);
	for (uint32_t i = 0; i < GM_CONFIG_DRIVERS; i++) {
		struct gm_config_driver *driver = &d->config->drivers[i];

		if (driver->enabled == GM_CONFIG_CUDA_OFF)
			continue;
		has_cards = true;
		if (names[i])
			offer_cache(d, names[i], &driver->cache);
	}
	return has_cards;
}

static int start(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);
	char why[GM_WHY_BYTES];
	int status;

	gm_subscribers_set(d);
	status = gm_manager_init(d->manager, why);
	if (status != 0)
		return failed("manager", why, GM_EXIT_CONFIG);
	gm_transactions_init(d->changes);
	gm_mask_devices_init(d);
	status = read_dummies(d);
	if (status != 0)
		return status;
	status = start_loop(d);
	if (status != 0)
		return status;
	status = gm_fd_store_start(d);
	if (status != 0)
		return failed("manager", strerror(-status), GM_EXIT_FAILURE);
	if (gm_uring_check(why) != 0)
		return failed("io_uring", why, GM_EXIT_URING);
	pin(d);
	w->lock = gm_lock_take(d->instance, why);
	if (w->lock < 0)
		return failed("lock", why, gm_exit_status(w->lock));
	gm_older_remove(d->instance);
	status = gm_state_start(d, why);
	if (status != 0)
		return failed("state", why, gm_exit_status(status));
	status = open_segment(d);
	if (status != 0)
		return status;
	on_heartbeat(&w->heartbeat);
	if (!offer_caches(d))
		return open_rows(d);
	gm_cards_start(d);
	return 0;
}

/* Files that a failed start has created are of no use, and neither is a segment
 * that the next agent will not find: its readers are told. */
static void close_segment(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);

	if (!gm_folder_has(d->segment->fd)) {
		gm_segment_discard(d->segment, "its file was removed");
	} else if (d->is_open || d->segment->adopted || w->status == 0) {
		gm_segment_close(d->segment);
	} else {
		gm_segment_discard(d->segment, "it was made and never opened");
		gm_numa_segments_remove(d->instance);
	}
}

/* An I/O thread's job does not end, and works on memory that others would free:
 * everything but memory is given back, and the rest goes with the process.  The
 * kernel keeps the instance's lock for as long as that takes. */
static _Noreturn void leave(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);

	gm_listener_exit(d);
	gm_supervisor_exit(d);
	gm_drains_exit(d);
	gm_cards_exit(d);
	_exit(w->status != 0 ? w->status : GM_EXIT_FAILURE);
}

static void stop(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);
	/* Beside what it had of drain_ns. */
	uint64_t more_ns = PATIENCE * d->config->drain_ns;

	if (more_ns < PATIENCE_LEAST_NS)
		more_ns = PATIENCE_LEAST_NS;
	if (gm_transactions_exit(d, gm_loop_now() + more_ns) != 0)
		leave(d);
	gm_wait_line_exit(d);
	gm_listed_exit(d);
	gm_listener_exit(d);
	gm_cluster_exit(d);
	gm_supervisor_exit(d);
	gm_drains_exit(d);
	gm_cards_exit(d);
	gm_p2p_paths_exit(d);
	if (d->segment->map.base != NULL) {
		gm_mask_devices_exit(d);
		gm_pins_exit(d);
		gm_ledger_exit(d);
		gm_credit_exit(d);
		gm_devices_exit(d);
		gm_numa_segments_exit(d);
		gm_blocks_exit(&d->directory->heap);
		close_segment(d);
	}
	gm_state_exit(d);
	gm_fd_store_exit(d);
	if (w->signals.fd > 0)
		close(w->signals.fd);
	if (d->loop->epoll > 0)
		gm_loop_exit(d->loop);
	if (w->lock > 0)
		close(w->lock);
	gm_manager_exit(d->manager);
	gm_nodefile_free(d->dummies);
}

/* Rows that the probe has named, or had its time to. */
static void open_listed(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);

	d->cards->is_listed = false;
	if (d->draining)
		return;
	w->status = open_rows(d);
	if (w->status != 0)
		gm_loop_stop(d->loop);
}

/* Once, when every row that should be READY is. */
static void announce(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);

	if (!d->is_open || w->announced || d->draining ||
	    !gm_devices_ready(d) || gm_mask_state_are_made(d) ||
	    !gm_listed_maps_tried(d))
		return;
	w->announced = true;
	gm_manager_ready(d->manager);
	tell_status(d);
	gm_log(GM_LOG_INFO, "ready", "instance=%s epoch=%llu rows=%u pid=%d",
	       d->instance, (unsigned long long)d->segment->epoch,
	       d->devices->n, (int)getpid());
}

/* Checks that need several modules run after each turn of the loop. */
static void on_turn(struct gm_loop *loop)
{
	struct whole *w = gm_owner(loop, struct whole, loop);
	struct gm_daemon *d = &w->d;

	if (d->cards->is_listed)
		open_listed(d);
	if (d->is_open)
		gm_listed_look(d, w->announced);
	announce(d);
	gm_map_waits_look(d);
	if (d->draining && gm_transactions_drained(d) &&
	    gm_listener_drained(d) && gm_supervisor_drained(d))
		gm_loop_stop(loop);
}

int gm_daemon_run(struct gm_daemon *d)
{
	struct whole *w = whole_of(d);
	int ret;

	w->status = start(d);
	if (w->status == 0) {
		announce(d);
		d->loop->turned = on_turn;
		ret = gm_loop_run(d->loop);
		if (ret != 0)
			w->status =
				failed("loop", strerror(-ret), GM_EXIT_FAILURE);
	}
	if (w->announced || d->draining)
		gm_log(GM_LOG_INFO, "stopped", "instance=%s status=%d",
		       d->instance, w->status);
	stop(d);
	return w->status;
}

int gm_daemon_remove(const char *instance)
{
	char why[GM_WHY_BYTES] = "";
	int lock, ret;

	lock = gm_lock_take(instance, why);
	if (lock < 0)
		return failed("lock", why, gm_exit_status(lock));
	gm_older_remove(instance);
	ret = gm_segment_remove(instance, why);
	if (ret == 0 || ret == -ENOENT)
		gm_numa_segments_remove(instance);
	close(lock);
	if (ret != 0 && ret != -ENOENT)
		return failed("segment", why, gm_exit_status(ret));
	gm_log(GM_LOG_INFO, ret == 0 ? "removed" : "nothing_to_remove",
	       "instance=%s", instance);
	return 0;
}

int gm_exit_status(int error)
{
	switch (error) {
	case -EINVAL:
		return GM_EXIT_CONFIG;
	case -EBUSY:
		return GM_EXIT_LOCKED;
	case -ENOSPC:
		return GM_EXIT_FULL;
	case -EPERM:
	case -EACCES:
		return GM_EXIT_PERMISSION;
	default:
		return GM_EXIT_FAILURE;
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * daemon - gpumapd's one thread and all of its state.
 *
 * Start-up goes down this list and a clean end goes up: configuration, the node
 * file that it names, lock, state directory, segment, directory, holders,
 * probe, devices, ledger, maps of state files and of the configuration, I/O
 * thread, workers, socket.  Where there is a probe the loop runs from there on:
 * devices wait for its list.
 */
#ifndef GM_DAEMON_H
#define GM_DAEMON_H

#include <stdbool.h>

#include "agent/common/numa_bind.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/p2p.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/health/cuda.h"
#include "agent/daemon/health/probe.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/publish.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/meshes/epochs.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/state/state.h"
#include "agent/plan/nodefile.h"

/* The exit status of gpumapd. */
enum gm_exit {
	GM_EXIT_OK = 0,
	GM_EXIT_FAILURE = 1,   /* the log says what */
	GM_EXIT_CONFIG = 2,    /* command line or configuration */
	GM_EXIT_LOCKED = 3,    /* another agent runs this instance */
	GM_EXIT_URING = 4,     /* io_uring is refused */
	GM_EXIT_FULL = 5,      /* /dev/shm is too small */
	GM_EXIT_PERMISSION = 6 /* not allowed, or a file is not ours */
};

struct gm_worker_user;    /* workers/worker_users.h */
struct gm_supervisor;     /* workers/supervisor.c */
struct gm_control_server; /* sessions/listener.c */

struct gm_daemon {
	/* From the command line; never NULL. */
	const char *instance;
	const char *runtime_dir;
	const char *state_dir;
	const char *config_path;
	const char *worker_path;
	const char *probe_path;

	struct gm_config config;
	struct gm_nodefile dummies;  /* of [dummy]; no rows without a file */
	struct gm_pin_allow allowed; /* before we pinned ourselves */
	struct gm_loop loop;
	int lock;
	struct gm_segment segment;
	struct gm_directory directory;
	struct gm_nodes nodes;
	struct gm_mask_devices mask_devices;
	struct gm_holders holders;
	struct gm_devices devices;
	struct gm_probe probe;
	struct gm_cuda_rows cuda;
	struct gm_paths paths;
	struct gm_ledger ledger;
	struct gm_state_files state;
	struct gm_epochs epochs;
	struct gm_io_thread io_thread;
	struct gm_io_thread heavy_thread; /* an I/O thread for heavy jobs */
	struct gm_changes changes;
	struct gm_supervisor *supervisor; /* NULL until it has started */
	struct gm_control_server *server; /* likewise */

	const struct gm_events *events; /* NULL: no module is notified */
	const struct gm_worker_user *const *worker_users; /* NULL: none */
	const struct gm_state_kind *const *state_kinds;   /* likewise */

	struct gm_source signals;
	struct gm_timer heartbeat;
	struct gm_timer refresh;
	struct gm_timer drain_limit;
	uint32_t n_checked; /* rows whose descriptors were counted */
	bool is_open;       /* the start is over */
	bool announced;     /* event=ready has been said */
	bool draining;
	int status; /* to exit with */
};

/*
 * gm_daemon_run - start, serve until told to end, and end
 *
 * d		zeroed but for command line and configuration
 *
 * Returns	enum gm_exit; the reason has been logged
 */
int gm_daemon_run(struct gm_daemon *d);

/* Retire and unlink the segment of an instance that no agent runs.  Returns as
 * gm_daemon_run(). */
int gm_daemon_remove(const char *instance);

/* The exit status for a negative errno of the start-up. */
int gm_exit_status(int error);

#endif

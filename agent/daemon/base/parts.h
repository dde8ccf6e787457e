/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * parts - where a module of gpumapd finds the others' state.
 *
 * A module includes the header of each part that it uses.  The parts are made
 * and ended by agent/daemon/daemon.c, in the order that daemon.h gives; all of
 * them belong to the loop's thread.
 */
#ifndef GM_DAEMON_BASE_PARTS_H
#define GM_DAEMON_BASE_PARTS_H

#include <stdbool.h>

struct gm_changes;        /* map/transaction.h */
struct gm_config;         /* config.h */
struct gm_control_server; /* base/server.h */
struct gm_cluster_copies; /* cluster/cluster.h */
struct gm_credits;        /* account/credit.h */
struct gm_cards;          /* health/cards.h */
struct gm_devices;        /* devices/rows.h */
struct gm_directory;      /* segment/directory.h */
struct gm_epochs;         /* meshes/epochs.h */
struct gm_events;         /* base/events.h */
struct gm_fd_store;       /* base/fd_store.h */
struct gm_holders;        /* map/pins.h */
struct gm_io_thread;      /* base/io_thread.h */
struct gm_ledger;         /* account/ledger.h */
struct gm_listed_things;  /* sharing/listed.h */
struct gm_loop;           /* base/loop.h */
struct gm_manager;        /* base/manager.h */
struct gm_mask_devices;   /* masks/device_replicas.h */
struct gm_nodefile;       /* agent/files/nodefile.h */
struct gm_numa_segments;  /* masks/numa_segments.h */
struct gm_vendors;        /* health/vendors.h */
struct gm_paths;          /* devices/p2p.h */
struct gm_numa_allowed;   /* agent/common/numa_bind.h */
struct gm_segment;        /* segment/segment.h */
struct gm_state_files;    /* state/state.h */
struct gm_state_kind;     /* state/state.h */
struct gm_supervisor;     /* workers/supervisor.h */
struct gm_wait_line;      /* account/wait_line.h */
struct gm_watchers;       /* health/watchers.h */
struct gm_worker_user;    /* workers/worker_users.h */

struct gm_daemon {
	/* From the command line; never NULL. */
	const char *instance;
	const char *runtime_dir;
	const char *state_dir;
	const char *worker_path;
	const char *probe_path;
	const char *loader_path;

	/* Never NULL. */
	struct gm_config *config;
	struct gm_nodefile *dummies; /* of [dummy]; no rows without a file */
	struct gm_numa_allowed *allowed; /* before we pinned ourselves */
	struct gm_loop *loop;
	struct gm_manager *manager;
	struct gm_fd_store *fd_store;
	struct gm_segment *segment;
	struct gm_directory *directory;
	struct gm_numa_segments *nodes;
	struct gm_mask_devices *mask_devices;
	struct gm_holders *holders;
	struct gm_devices *devices;
	struct gm_watchers *watchers;
	struct gm_cards *cards;
	struct gm_vendors *vendors;
	struct gm_paths *paths;
	struct gm_ledger *ledger;
	struct gm_credits *credits;
	struct gm_wait_line *line;
	struct gm_state_files *state;
	struct gm_epochs *epochs;
	struct gm_io_thread *io_thread;
	struct gm_io_thread *heavy_thread; /* an I/O thread for heavy jobs */
	struct gm_changes *changes;
	struct gm_listed_things *listed;
	struct gm_cluster_copies *cluster;

	struct gm_supervisor *supervisor; /* NULL until it has started */
	struct gm_control_server *server; /* likewise */

	const struct gm_events *events; /* NULL: no module is notified */
	const struct gm_worker_user *const *worker_users; /* NULL: none */
	const struct gm_state_kind *const *state_kinds;   /* likewise */

	bool is_open; /* the start is over */
	bool draining;
};

#endif

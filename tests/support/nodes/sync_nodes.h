/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sync_nodes - nodes of a cluster on this machine: an agent and a gpumap-sync
 * each, with names and directories of their own.
 *
 * The nodes meet in a directory or in an etcd of the test's own.  The files of
 * a node are below its agent's directory, and end with it.
 */
#ifndef GM_TEST_SUPPORT_SYNC_NODES_H
#define GM_TEST_SUPPORT_SYNC_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/store/store.h"
#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/nodes/etcd_server.h"

#define SYNC_CLUSTER  "test"
#define SYNC_TTL_MS   2000
#define SYNC_LIMIT_MS 60000 /* against hanging */

/* Where nodes meet. */
struct sync_place {
	char text[256];     /* lines of [store] */
	char directory[96]; /* "": etcd */
	char url[64];       /* of etcd, for the test's own stores */
	struct etcd_server server;
};

/* A directory, or an etcd that serves.  The directory is @node's, which is made
 * before. */
void sync_place_file(struct sync_place *place, const char *directory);
void sync_place_etcd(struct sync_place *place);
void sync_place_etcd_at(struct sync_place *place, const char *address);

/* @server is made already; start it. */
void sync_place_etcd_is(struct sync_place *place);

/* A store of the test's own there. */
struct gm_store *sync_place_open(const struct sync_place *place);

struct sync_node {
	struct agent agent;
	char name[32];
	char dir[96]; /* of gpumap-sync, in that of the agent */
	char config[112];
	char log[112];
	char socket[108];
	const char *store;     /* other lines of [store] than the place's */
	const char *more;      /* sections and keys to end the file with */
	uint32_t ttl_ms;       /* of the next start */
	void (*prepare)(void); /* in the process of each start; or NULL */
	pid_t pid;             /* of gpumap-sync; 0: it does not run */
	off_t log_from;
	struct gpumap *map; /* attached by sync_node_attach() */
};

/* Names and directories.  @config: of the agent, NULL: the defaults. */
void sync_node_make(struct sync_node *node, const char *name,
		    const char *config);

/* Start gpumap-sync and return at once. */
void sync_node_spawn(struct sync_node *node, const struct sync_place *place);

/* Start both, and wait until the agent has the cluster.  Shows the logs where
 * that fails. */
bool sync_node_start(struct sync_node *node, const struct sync_place *place);

/* Wait for a text in the lines of this start of gpumap-sync. */
bool sync_node_logged(const struct sync_node *node, const char *text);
bool sync_node_wait_log(struct sync_node *node, const char *text);
unsigned int sync_node_count_log(const struct sync_node *node,
				 const char *text);
void sync_node_show_log(const struct sync_node *node);

/* Send gpumap-sync a signal and wait for its end.  Returns its exit status, or
 * -signal. */
int sync_node_kill(struct sync_node *node, int signal);

/* Attach to the agent's map, again where it was. */
void sync_node_attach(struct sync_node *node);

/* End all that runs, and remove the files. */
void sync_node_remove(struct sync_node *node);

/* Bytes of row 0 whose reservation other nodes are told of at once. */
uint64_t sync_node_step(const struct sync_node *node);

/* Reserve so much of the node's row 0 instead of what was reserved so before, 0
 * for nothing.  Returns as gpumap_plan_make(). */
int sync_node_reserve(struct sync_node *node, uint64_t bytes);

/* ---- what a node sees ---------------------------------------------------- */

/* Read @name as the node's agent has it.  Returns false where it has not. */
bool sync_node_read(const struct sync_node *node, const char *name,
		    struct gpumap_cluster_node *ret_node);

/* The state of @name there; 0: it is not listed. */
uint32_t sync_node_state(const struct sync_node *node, const char *name);

/* Wait until @name has a state there, 0 for none.  Returns the milliseconds, or
 * -1 after @limit_ms; the log is shown then. */
int sync_node_sees(struct sync_node *node, const char *name, uint32_t state,
		   uint32_t limit_ms);

/* Wait until a device of @name has so many reserved bytes there.  Returns as
 * above. */
int sync_node_sees_reserved(struct sync_node *node, const char *name,
			    uint64_t bytes, uint32_t limit_ms);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gang_rig - the gangs of several nodes in one process: a store, agents, leases
 * and a clock of the test's own.
 *
 * A write of a node waits in its store until it is delivered, and a change of
 * the store until the node's watches are.  A node that is cut off gets neither.
 * The clock stands still but for rig_pass().
 */
#ifndef GM_TEST_UNIT_GANG_RIG_H
#define GM_TEST_UNIT_GANG_RIG_H

#include "agent/sync/config.h"
#include "agent/sync/gangs.h"
#include "agent/store/store_backend.h"

#define RIG_NODES   3u
#define RIG_CLIENTS 6u /* processes */
#define RIG_MS      UINT64_C(1000000)
#define RIG_TTL     (2000 * RIG_MS)
#define RIG_ROOM    100u /* bytes of a node's only device */
#define RIG_MAPS    32u

struct rig_map {
	char name[64];
	uint64_t version;
	uint64_t bytes;
};

struct rig_node {
	struct gm_store store; /* first: a back end of store.h */
	struct gm_sync sync;
	struct gm_sync_config config;
	struct gm_store_lease lease;
	uint64_t lease_id;
	uint64_t own_ns;   /* when it gives its lease up */
	uint64_t lapse_ns; /* when the store does */
	struct gm_store_watch *watches[2];
	uint64_t seen[2]; /* what the watch has been told: a version of keys */
	bool is_up;
	bool is_cut;
	bool cut_told;
	bool needs_list[2];
	/* the agent */
	bool agent_up;
	struct rig_map maps[RIG_MAPS];
	uint64_t rival;         /* bytes that others have */
	bool is_taken;          /* others have a map of every name */
	unsigned int n_refused; /* releases: it cannot look at its client */
	bool has_failed;        /* the last call, by chance */
};

struct rig_client {
	struct gm_sync_client client;
	int fd; /* the process's end */
	unsigned int node;
	bool is_open;
	uint32_t serial;
};

extern struct rig_node rig_nodes[RIG_NODES];
extern struct rig_client rig_clients[RIG_CLIENTS];
extern uint64_t rig_now;

/* A fresh world, all nodes up. */
void rig_begin(void);
void rig_end(void);

/* Start a node's gpumap-sync; end it at once, with some of its writes done. */
void rig_start(unsigned int i);
void rig_kill(unsigned int i);

void rig_cut(unsigned int i, bool is_cut);

/* Deliver a node's next write: done, or said to have timed out and done later
 * or never. */
bool rig_deliver(unsigned int i);
void rig_deliver_late(unsigned int i);

/* Tell a node's watches what has changed. */
void rig_watch(unsigned int i);

/* Let time pass: leases are renewed or lapse, late writes arrive, and nodes
 * that are due are called. */
void rig_pass(uint64_t ns);

/* Deliver everything for so long. */
void rig_settle(uint64_t ns);

/* A process connects to a node, and ends. */
void rig_open(unsigned int client, unsigned int node);
void rig_close(unsigned int client);

/* The process asks for bytes on nodes, a bit for each, and waits for so long,
 * 0: as long as it may; or releases its gang. */
extern uint64_t rig_timeout_ns;
void rig_reserve(unsigned int client, const char *name, uint32_t nodes,
		 uint64_t bytes);
void rig_release(unsigned int client);

/* The next message that it got.  Returns 0 or a refusal, -EAGAIN: none.
 * @ret_type receives the type, @ret_why the words; both may be NULL. */
int rig_hear(unsigned int client, uint16_t *ret_type,
	     char ret_why[GM_WHY_BYTES]);

/* A node's map of this name, or NULL. */
const struct rig_map *rig_map(unsigned int node, const char *name);

/* Bytes that a node has promised. */
uint64_t rig_promised(unsigned int node);

/* Keys in the store. */
unsigned int rig_count_keys(void);

/* Whether calls of agents fail by chance; never two of a node in succession. */
extern bool rig_fails;

/* Called when a node has reserved a map. */
extern void (*rig_on_reserve)(unsigned int node, const char *name);

/* Write a key past all nodes. */
void rig_put(const char *key, const char *value);

#endif

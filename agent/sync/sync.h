/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sync - what the parts of gpumap-sync share.
 *
 * gpumap-sync joins this node's map with those of other nodes.  One thread, one
 * loop: every call of a part returns at once, and what takes longer goes on
 * with a callback of the store, a request of a client, or the part's time.
 *
 *   - @store is open as long as a part is.  A part watches what it needs.
 *   - @lease is the only one: what a part writes under it ends with this
 *     process, or when the node is cut off.  lease() says when it is held or
 *     lost.
 *   - @map is NULL while there is no agent.  Requests to the agent wait for it,
 *     so a part makes them only where gm_sync_agent_answers() says so.
 */
#ifndef GM_SYNC_H
#define GM_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/store/store.h"
#include "gpumap.h"

#define GM_SYNC_INSTANCE_BYTES 17 /* 16 hexadecimal digits, and a NUL */
#define GM_SYNC_BOOT_BYTES     37 /* as /proc/sys/kernel/random/boot_id */
#define GM_SYNC_NEVER          UINT64_MAX

struct gm_feed;        /* feed.c */
struct gm_gangs;       /* gangs.h */
struct gm_manager;     /* agent/common/manager.h */
struct gm_own;         /* own.c */
struct gm_peers;       /* peers.h */
struct gm_sync_agent;  /* agent.c */
struct gm_sync_client; /* client.h */
struct gm_sync_config; /* config.h */
struct gm_sync_message;
struct gm_sync_server; /* server.h */
struct gm_values;      /* values.c */

struct gm_sync;

/* A descriptor that the loop waits for. */
struct gm_sync_source {
	int fd;
	/* The descriptor can be read, or has hung up. */
	void (*ready)(struct gm_sync *sync, struct gm_sync_source *source);
};

struct gm_sync {
	const struct gm_sync_config *config;
	struct gm_store *store;
	struct gm_store_lease *lease; /* of this node; its keys end with it */
	struct gpumap *map;           /* NULL: no agent at the moment */
	struct gm_sync_server *server;
	struct gm_sync_agent *agent;
	struct gm_own *own;     /* what this node says */
	struct gm_peers *peers; /* what the nodes have said */
	struct gm_feed *feed;   /* what the agent was told of it */
	struct gm_gangs *gangs;
	struct gm_values *values;
	char instance[GM_SYNC_INSTANCE_BYTES]; /* random, of this process */
	char boot[GM_SYNC_BOOT_BYTES];
	int epoll;
	bool ends; /* the loop does not sleep again */
};

/* How to treat one type of request. */
struct gm_sync_request {
	uint32_t type;       /* enum gm_sync_type */
	uint32_t body_bytes; /* as we know it */
	bool has_tail;
	/* Answer, now or later, with gm_sync_client_reply(). */
	void (*handle)(struct gm_sync_client *client,
		       const struct gm_sync_message *message);
};

/* A part.  Each function but open() and close() may be NULL; they are called in
 * the order of the parts, and close() in the reverse. */
struct gm_sync_part {
	/* Returns 0 or a negative errno. */
	int (*open)(struct gm_sync *sync);
	/* The store is gone already. */
	void (*close)(struct gm_sync *sync);
	const struct gm_sync_request *requests;
	size_t n_requests;
	/* The client has ended, and is freed after this. */
	void (*client_gone)(struct gm_sync_client *client);
	/* sync->lease->held has changed. */
	void (*lease)(struct gm_sync *sync);
	/* The agent has come, has started anew, or has gone; sync->map may be
	 * another one. */
	void (*agent)(struct gm_sync *sync);
	/* When to call tick(); GM_SYNC_NEVER: not at all.  Asked before each
	 * sleep. */
	uint64_t (*due)(const struct gm_sync *sync);
	void (*tick)(struct gm_sync *sync, uint64_t now_ns);
};

/* The parts, to a NULL. */
extern const struct gm_sync_part *const gm_sync_parts[];

/* The loop's clock, CLOCK_BOOTTIME in ns. */
uint64_t gm_sync_now(void);

/* Is there an agent that serves, and has it been seen within two seconds?
 * Cost: no system call. */
bool gm_sync_agent_answers(const struct gm_sync *sync);

/* Have the loop wait for a descriptor.  Returns 0 or a negative errno. */
int gm_sync_add(struct gm_sync *sync, struct gm_sync_source *source);

/* No longer.  A closed descriptor needs no call. */
void gm_sync_remove(struct gm_sync *sync, struct gm_sync_source *source);

/* Call lease(), or agent(), of all parts. */
void gm_sync_lease_changed(struct gm_sync *sync);
void gm_sync_agent_changed(struct gm_sync *sync);

/*
 * gm_sync_run - serve until SIGTERM, SIGINT or SIGHUP
 *
 * Returns	0
 *		-EADDRINUSE	another gpumap-sync has the socket
 *		or another negative errno; the log says why
 */
int gm_sync_run(const struct gm_sync_config *config,
		struct gm_manager *manager);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ephemerals - values that end with the process that wrote them.
 *
 * They are under this node's lease, so they end with gpumap-sync, too.  When
 * their client is gone they are deleted, unless another process has written
 * them since; a deletion that fails is made again.
 *
 * A write may end without an answer, and be carried out even later.  The key is
 * looked at then, once a second and whenever the watch says something of it,
 * until it has another revision than the write was to replace: a value with
 * these bytes, under this node's lease, that no other process here has written,
 * is that of the write.
 */
#ifndef GM_EPHEMERALS_H
#define GM_EPHEMERALS_H

#include "agent/sync/client.h"

struct gm_ephemeral;

struct gm_ephemerals {
	struct gm_sync *sync;
	uint32_t n_deletions; /* that the store has */
	LIST_HEAD(, gm_ephemeral) list;
};

void gm_ephemerals_init(struct gm_ephemerals *all, struct gm_sync *sync);

/*
 * gm_ephemerals_begin - a write of @client is made
 *
 * Returns	the value, for gm_ephemerals_end(); NULL: out of memory
 */
struct gm_ephemeral *gm_ephemerals_begin(struct gm_ephemerals *all,
					 struct gm_sync_client *client,
					 const struct gm_store_write *write);

/*
 * gm_ephemerals_end - that write has ended
 *
 * status	of the store's result
 *
 * Returns	the status for the client: -ETIMEDOUT where the lease was lost
 *		meanwhile
 */
int gm_ephemerals_end(struct gm_ephemeral *one, int status, uint64_t revision);

/* A key that had @revision was written anew, or deleted. */
void gm_ephemerals_replaced(struct gm_ephemerals *all, const char *key,
			    uint64_t revision);

/* The store has a value, as the watch says. */
void gm_ephemerals_saw(struct gm_ephemerals *all,
		       const struct gm_store_event *put);

/* How many a user has, those of processes that are gone included. */
uint32_t gm_ephemerals_count(const struct gm_ephemerals *all, uid_t uid);

/* A client is gone: delete what it has. */
void gm_ephemerals_client_gone(struct gm_ephemerals *all,
			       const struct gm_sync_client *client);

/* The lease was lost, and all of them with it: call told() for each client that
 * had any. */
void gm_ephemerals_lost(struct gm_ephemerals *all,
			void (*told)(struct gm_sync_client *client));

uint64_t gm_ephemerals_due(const struct gm_ephemerals *all);
void gm_ephemerals_tick(struct gm_ephemerals *all, uint64_t now_ns);

void gm_ephemerals_free(struct gm_ephemerals *all);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peers - what the nodes of the cluster have said, this one too.
 *
 * A node is LIVE while its key is in the store, and GONE from then on, with its
 * last content, until it returns or the time to forget it has passed.  A node
 * whose value is refused is REFUSED, without content, and the log says why,
 * once until a value of it is taken again.
 */
#ifndef GM_SYNC_PEERS_H
#define GM_SYNC_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/sync/summary.h"
#include "agent/sync/sync.h"

#define GM_PEERS_PREFIX "nodes/"

struct gm_peer {
	/* Its node has the name, the state and the flags in any case. */
	struct gm_summary summary;
	uint64_t revision; /* of its key; 0: there is none */
	uint64_t since_ns; /* it changed, or it went */
	bool is_news;      /* the agent does not know it so */
	bool is_forgotten; /* and not freed until the agent knows */
};

/* The node of this name, or NULL. */
const struct gm_peer *gm_peers_find(const struct gm_peers *peers,
				    const char *name);

/* The node at a place of the list, which is in the order of their names; NULL
 * at its end. */
struct gm_peer *gm_peers_at(const struct gm_peers *peers, uint32_t place);

/* Where in the list the first name after @name is. */
uint32_t gm_peers_after(const struct gm_peers *peers, const char *name);

uint32_t gm_peers_count(const struct gm_peers *peers);

/* Has the list been whole, at least once? */
bool gm_peers_known(const struct gm_peers *peers);

/* Does the watch say every change now, as far as the store knows? */
bool gm_peers_whole(const struct gm_peers *peers);

/*
 * gm_peers_recall - take the nodes that an earlier gpumap-sync knew, and that
 * are in the store no more, from the agent's map: they are GONE
 */
void gm_peers_recall(struct gm_peers *peers, const struct gpumap *map);

/* Add a node, which is none of the list.  Returns NULL where there is no
 * room. */
struct gm_peer *gm_peers_add(struct gm_peers *peers, const char *name);

/* All news have been told: free what is forgotten. */
void gm_peers_told(struct gm_peers *peers);

#endif

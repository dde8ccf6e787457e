/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nodes - the agent's own copies of what the nodes of a cluster say, which it
 * publishes as one object.
 */
#ifndef GM_DAEMON_CLUSTER_NODES_H
#define GM_DAEMON_CLUSTER_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "shm/cluster.h"
#include "shm/control_cluster.h"

/* Nodes by name, none twice. */
struct gm_cluster_list {
	uint32_t n;
	struct gm_cluster_node *of[GM_CLUSTER_NODES];
};

/* A validated request. */
struct gm_cluster_update {
	uint32_t n;
	/* With image.state 0: to be forgotten. */
	struct gm_cluster_node *of[GM_CLUSTER_NODES];
};

/*
 * gm_cluster_update_take - validate the tail of a request, and copy its nodes
 *
 * n		entries that the request says it has
 * now		by the node's clock, ns: ages become times
 * ret_update	give it to gm_cluster_list_apply() or
 *		gm_cluster_update_drop()
 *
 * Returns	0
 *		-EINVAL		a text, a number, or two entries of one node
 *		-E2BIG		more nodes than there may be
 *		-ENOMEM
 */
int gm_cluster_update_take(const char *tail, uint32_t tail_bytes, uint32_t n,
			   uint64_t now, char ret_why[GM_WHY_BYTES],
			   struct gm_cluster_update *ret_update);

void gm_cluster_update_drop(struct gm_cluster_update *update);

/* Is there room for the nodes that the update adds? */
bool gm_cluster_list_admits(const struct gm_cluster_list *list,
			    const struct gm_cluster_update *update);

/* Replace, add and remove the nodes of an update for which there is room.  They
 * belong to the list then, and the update is empty. */
void gm_cluster_list_apply(struct gm_cluster_list *list,
			   struct gm_cluster_update *update);

void gm_cluster_list_clear(struct gm_cluster_list *list);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/peers.h"

#include <stdlib.h>
#include <string.h>

/* Copy the lists of a node from the map, but for items that are not there any
 * more or find no memory. */
static void copy_lists(const struct gpumap *map, struct gm_summary *summary)
{
	struct gpumap_cluster_node *node = &summary->node;
	uint32_t cursor = 0, index = node->index, n = 0;

	summary->devices = calloc(node->n_devices, sizeof(*summary->devices));
	while (summary->devices != NULL && n < node->n_devices) {
		summary->devices[n].size = sizeof(*summary->devices);
		if (gpumap_cluster_next_device(map, index, &cursor,
					       &summary->devices[n]) != 1)
			break;
		n++;
	}
	node->n_devices = n;
	summary->shares = calloc(node->n_shares, sizeof(*summary->shares));
	cursor = n = 0;
	while (summary->shares != NULL && n < node->n_shares) {
		summary->shares[n].size = sizeof(*summary->shares);
		if (gpumap_cluster_next_share(map, index, NULL, &cursor,
					      &summary->shares[n]) != 1)
			break;
		n++;
	}
	node->n_shares = n;
}

static void recall(struct gm_peers *peers, const struct gpumap *map,
		   const struct gpumap_cluster_node *node)
{
	uint64_t age_ns = node->state == GPUMAP_CLUSTER_GONE ? node->age_ns : 0;
	struct gm_peer *peer = gm_peers_add(peers, node->name);

	if (peer == NULL)
		return;
	peer->summary.node = *node;
	peer->summary.node.state = GPUMAP_CLUSTER_GONE;
	copy_lists(map, &peer->summary);
	peer->since_ns = gm_sync_now() - age_ns;
	peer->is_news = true;
}

void gm_peers_recall(struct gm_peers *peers, const struct gpumap *map)
{
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	uint32_t cursor = 0;

	while (gpumap_cluster_next_node(map, &cursor, &node) == 1) {
		if (node.state != GPUMAP_CLUSTER_REFUSED &&
		    (node.flags & GPUMAP_CLUSTER_SELF) == 0 &&
		    gm_peers_find(peers, node.name) == NULL)
			recall(peers, map, &node);
	}
}

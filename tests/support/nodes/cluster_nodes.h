/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster_nodes.h - nodes of a cluster whose every figure follows from a
 * number: published as gpumap-sync does, and read back whole.
 */
#ifndef GM_TEST_SUPPORT_CLUSTER_NODES_H
#define GM_TEST_SUPPORT_CLUSTER_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap.h"

/* Nodes n0000, n0001 and so on, each with so many devices and shares. */
struct cluster_nodes {
	uint32_t n;
	uint32_t n_devices;
	uint32_t n_shares;
	uint32_t content; /* the number */
};

/* One of them, in memory of the test's. */
struct cluster_node {
	struct gpumap_cluster_node node;
	struct gpumap_cluster_device devices[GPUMAP_CLUSTER_ROWS_MAX];
	struct gpumap_cluster_share shares[GPUMAP_CLUSTER_SHARES_MAX];
};

/* Node @i of them.  The entry points into it. */
struct gpumap_cluster_entry cluster_node_make(const struct cluster_nodes *of,
					      uint32_t i,
					      struct cluster_node *ret_node);

/* A request of cluster "c" and node "n0000". */
struct gpumap_cluster_request
cluster_request(const struct gpumap_cluster_entry *entries, uint32_t n,
		uint32_t flags);

/* Publish all of them from BEGIN on, in portions; the last request has @flags
 * as well.  Returns 0, or the first refusal. */
int cluster_nodes_publish(struct gpumap *map, const struct cluster_nodes *of,
			  uint32_t flags);

/* Are these nodes, and no others, what is published?  Returns 0, or -EINVAL
 * with a note of the difference; what gpumap_cluster_read() does; -EAGAIN when
 * another publication came in between. */
int cluster_nodes_check(const struct gpumap *map,
			const struct cluster_nodes *of);

/* The same of one version. */
int cluster_nodes_check_version(const struct gpumap *map,
				const struct cluster_nodes *of,
				uint64_t version);

#endif

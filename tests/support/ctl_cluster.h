/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ctl_cluster - a cluster of nodes that are not there, published to a test's
 * agent as gpumap-sync does it.
 */
#ifndef GM_TEST_SUPPORT_CTL_CLUSTER_H
#define GM_TEST_SUPPORT_CTL_CLUSTER_H

#include <gpumap/cluster.h>
#include <string.h>

#include "tests/support/ctl.h"

#define CLUSTER_GIB    (UINT64_C(1) << 30)
#define CLUSTER_SECOND UINT64_C(1000000000)

struct lab_node {
	struct gpumap_cluster_node info;
	struct gpumap_cluster_device devices[GPUMAP_CLUSTER_ROWS_MAX];
	struct gpumap_cluster_share shares[GPUMAP_CLUSTER_SHARES_MAX];
	uint32_t n_devices, n_shares;
};

/* A live node without devices. */
static inline void lab_node(struct lab_node *node, const char *name,
			    const char *address)
{
	*node = (struct lab_node){
		.info = { .size = sizeof(node->info),
			  .state = GPUMAP_CLUSTER_LIVE,
			  .age_ns = 7230 * CLUSTER_SECOND,
			  .epoch = 7,
			  .agent_version = GPUMAP_VERSION },
	};
	snprintf(node->info.name, sizeof(node->info.name), "%s", name);
	snprintf(node->info.address, sizeof(node->info.address), "%s", address);
}

/* A card with so many GiB free, of 80. */
static inline struct gpumap_cluster_device *lab_card(struct lab_node *node,
						     uint64_t gib)
{
	uint32_t row = node->n_devices;
	struct gpumap_cluster_device *d = &node->devices[node->n_devices++];

	*d = (struct gpumap_cluster_device){
		.size = sizeof(*d),
		.row = row,
		.name = "NVIDIA H100",
		.kind = GPUMAP_DEVICE_CUDA,
		.state = GPUMAP_DEVICE_READY,
		.flags = GPUMAP_DEVICE_SERVES | GPUMAP_DEVICE_CARD,
		.cc_major = 9,
		.total_bytes = 80 * CLUSTER_GIB,
		.free_bytes = gib * CLUSTER_GIB,
		.links = 18,
	};
	d->uuid[0] = (uint8_t)node->info.name[0];
	d->uuid[15] = (uint8_t)(row + 1);
	return d;
}

static inline struct gpumap_cluster_share *
lab_share(struct lab_node *node, const char *name, uint8_t mark)
{
	struct gpumap_cluster_share *s = &node->shares[node->n_shares++];

	*s = (struct gpumap_cluster_share){
		.size = sizeof(*s),
		.flags = GPUMAP_SHARE_READ_ONLY,
		.bytes = 128 * CLUSTER_GIB,
		.rows = { 3 },
	};
	snprintf(s->name, sizeof(s->name), "%s", name);
	memset(s->fingerprint, mark, sizeof(s->fingerprint));
	return s;
}

/* Publish these nodes, and no others.  This node's name is that of the first.
 * Returns as gpumap_cluster_publish(). */
static inline int lab_publish(struct gpumap *map, const struct lab_node *nodes,
			      uint32_t n, uint64_t limit_ns, uint32_t flags)
{
	struct gpumap_cluster_entry entries[16];
	struct gpumap_cluster_request request = {
		.size = sizeof(request),
		.name = "lab",
		.node = nodes[0].info.name,
		.limit_ns = limit_ns,
		.entries = entries,
		.n_entries = n,
		.flags = GPUMAP_CLUSTER_BEGIN | flags,
	};

	for (uint32_t i = 0; i < n && i < 16; i++)
		entries[i] = (struct gpumap_cluster_entry){
			.node = &nodes[i].info,
			.devices = nodes[i].devices,
			.shares = nodes[i].shares,
			.n_devices = nodes[i].n_devices,
			.n_shares = nodes[i].n_shares,
		};
	return gpumap_cluster_publish(map, &request);
}

#endif

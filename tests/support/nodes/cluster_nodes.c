/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/nodes/cluster_nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tap.h"

#define PORTION_BYTES 100000u

static void make_device(const struct cluster_nodes *of, uint32_t i, uint32_t k,
			struct gpumap_cluster_device *device)
{
	*device = (struct gpumap_cluster_device){
		.size = sizeof(*device),
		.row = k,
		.kind = GPUMAP_DEVICE_CUDA,
		.state = GPUMAP_DEVICE_READY,
		.flags = i,
		.numa_node = (int32_t)k - 1,
		.cc_major = 9,
		.cc_minor = k,
		.total_bytes = (uint64_t)of->content << 32 | i << 8 | k,
		.free_bytes = of->content,
		.reserved_bytes = i,
		.used_by_holders = k,
		.links = of->content ^ i,
	};
	memcpy(device->uuid, &i, sizeof(i));
	memcpy(device->uuid + 4, &k, sizeof(k));
	snprintf(device->name, sizeof(device->name), "Card %u of %u",
		 of->content, i);
}

static void make_share(const struct cluster_nodes *of, uint32_t i, uint32_t k,
		       struct gpumap_cluster_share *share)
{
	*share = (struct gpumap_cluster_share){
		.size = sizeof(*share),
		.uid = i,
		.flags = k,
		.bytes = (uint64_t)of->content << 32 | i << 8 | k,
		.rows = { of->content, i, k, 1 },
	};
	memset(share->fingerprint, (int)(of->content + k),
	       sizeof(share->fingerprint));
	snprintf(share->name, sizeof(share->name), "share%u", k);
}

struct gpumap_cluster_entry cluster_node_make(const struct cluster_nodes *of,
					      uint32_t i,
					      struct cluster_node *ret_node)
{
	ret_node->node = (struct gpumap_cluster_node){
		.size = sizeof(ret_node->node),
		.state = GPUMAP_CLUSTER_LIVE,
		.flags = i == 0 ? GPUMAP_CLUSTER_SELF : 0,
		.epoch = of->content,
		.agent_version = GPUMAP_VERSION,
		.more_devices = i % 3,
		.more_shares = i % 2,
	};
	snprintf(ret_node->node.name, sizeof(ret_node->node.name), "n%04u", i);
	snprintf(ret_node->node.address, sizeof(ret_node->node.address),
		 "10.0.%u.%u", i / 256, i % 256);
	for (uint32_t k = 0; k < of->n_devices; k++)
		make_device(of, i, k, &ret_node->devices[k]);
	for (uint32_t k = 0; k < of->n_shares; k++)
		make_share(of, i, k, &ret_node->shares[k]);
	return (struct gpumap_cluster_entry){ .node = &ret_node->node,
					      .devices = ret_node->devices,
					      .shares = ret_node->shares,
					      .n_devices = of->n_devices,
					      .n_shares = of->n_shares };
}

struct gpumap_cluster_request
cluster_request(const struct gpumap_cluster_entry *entries, uint32_t n,
		uint32_t flags)
{
	return (struct gpumap_cluster_request){
		.size = sizeof(struct gpumap_cluster_request),
		.name = "c",
		.node = "n0000",
		.limit_ns = UINT64_C(6000000000),
		.entries = entries,
		.n_entries = n,
		.flags = flags,
	};
}

int cluster_nodes_publish(struct gpumap *map, const struct cluster_nodes *of,
			  uint32_t flags)
{
	uint32_t portion = PORTION_BYTES /
			   (200 + of->n_devices * 150 + of->n_shares * 160);
	struct cluster_node *nodes = calloc(portion, sizeof(*nodes));
	struct gpumap_cluster_entry *entries =
		calloc(portion, sizeof(*entries));
	uint32_t i = 0, begin = GPUMAP_CLUSTER_BEGIN;
	int ret = nodes != NULL && entries != NULL ? 0 : -ENOMEM;

	do {
		struct gpumap_cluster_request request;
		uint32_t n = 0;

		for (; ret == 0 && n < portion && i < of->n; n++, i++)
			entries[n] = cluster_node_make(of, i, &nodes[n]);
		request = cluster_request(
			entries, n,
			begin | (i < of->n ? GPUMAP_CLUSTER_MORE : flags));
		if (ret == 0)
			ret = gpumap_cluster_publish(map, &request);
		begin = 0;
	} while (ret == 0 && i < of->n);
	free(entries);
	free(nodes);
	return ret;
}

/* ---- reading ------------------------------------------------------------- */

/* A list has given what it should not; or another publication did. */
static int differ(const char *what, uint32_t i, int ret, uint64_t version,
		  uint64_t now)
{
	if (ret == -EAGAIN || (ret >= 0 && now != version))
		return -EAGAIN;
	NOTE("%s %u: %d", what, i, ret);
	return -EINVAL;
}

static int check_lists(const struct gpumap *map, const struct cluster_nodes *of,
		       uint64_t version)
{
	uint32_t devices = 0, shares = 0, cursor = 0;
	struct cluster_node want;

	for (uint32_t i = 0; i < of->n; i++) {
		struct gpumap_cluster_node node = { .size = sizeof(node) };
		int ret = gpumap_cluster_next_node(map, &cursor, &node);

		memset(&want, 0, sizeof(want));
		cluster_node_make(of, i, &want);
		want.node.version = version;
		want.node.age_ns = node.age_ns;
		want.node.n_devices = of->n_devices;
		want.node.n_shares = of->n_shares;
		want.node.index = i;
		if (ret != 1 || memcmp(&node, &want.node, sizeof(node)) != 0)
			return differ("node", i, ret, version, node.version);
		for (uint32_t k = 0; k < of->n_devices; k++) {
			struct gpumap_cluster_device got = { .size = sizeof(
								     got) };

			ret = gpumap_cluster_next_device(
				map, GPUMAP_CLUSTER_ANY, &devices, &got);
			want.devices[k].version = version;
			want.devices[k].node = i;
			if (ret != 1 ||
			    memcmp(&got, &want.devices[k], sizeof(got)) != 0)
				return differ("device", devices, ret, version,
					      got.version);
		}
		for (uint32_t k = 0; k < of->n_shares; k++) {
			struct gpumap_cluster_share got = { .size = sizeof(
								    got) };

			ret = gpumap_cluster_next_share(map, GPUMAP_CLUSTER_ANY,
							NULL, &shares, &got);
			want.shares[k].version = version;
			want.shares[k].node = i;
			if (ret != 1 ||
			    memcmp(&got, &want.shares[k], sizeof(got)) != 0)
				return differ("share", shares, ret, version,
					      got.version);
		}
	}
	return 0;
}

int cluster_nodes_check_version(const struct gpumap *map,
				const struct cluster_nodes *of,
				uint64_t version)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	int ret = gpumap_cluster_read(map, &cluster);

	if (ret == 0 && cluster.version != version)
		ret = -EAGAIN;
	if (ret != 0)
		return ret;
	if (strcmp(cluster.name, "c") != 0 ||
	    strcmp(cluster.node, "n0000") != 0 || cluster.n_nodes != of->n ||
	    cluster.n_devices != of->n * of->n_devices ||
	    cluster.n_shares != of->n * of->n_shares) {
		NOTE("cluster %s, node %s: %u nodes, %u devices, %u shares",
		     cluster.name, cluster.node, cluster.n_nodes,
		     cluster.n_devices, cluster.n_shares);
		return -EINVAL;
	}
	return check_lists(map, of, version);
}

int cluster_nodes_check(const struct gpumap *map,
			const struct cluster_nodes *of)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	int ret = gpumap_cluster_read(map, &cluster);

	return ret == 0 ? cluster_nodes_check_version(map, of, cluster.version)
			: ret;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/cluster_metrics.h"

#define NS 1e9

static void write_nodes(struct gm_exposition *e,
			const struct gpumap_cluster *cluster)
{
	static const struct gm_family nodes = {
		"gpumap_cluster_nodes", "Nodes of the cluster in each state.",
		NULL, GM_FAMILY_GAUGE
	};
	const struct {
		const char *state;
		uint32_t n;
	} states[] = {
		{ "LIVE",
		  cluster->n_nodes - cluster->n_gone - cluster->n_refused },
		{ "GONE", cluster->n_gone },
		{ "REFUSED", cluster->n_refused },
	};

	gm_exposition_family(e, &nodes);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct gm_labels labels = { 0 };

		gm_labels_add(&labels, "state", states[i].state);
		gm_exposition_sample(e, &labels, states[i].n);
	}
}

void gm_cluster_metrics_write(struct gm_exposition *e, const struct gpumap *map)
{
	static const struct gm_family stale = {
		"gpumap_cluster_stale",
		"1 if it is not known what other nodes have now, else 0.", NULL,
		GM_FAMILY_GAUGE
	};
	static const struct gm_family age = {
		"gpumap_cluster_age_seconds",
		"Time since it was known what all nodes have.", "seconds",
		GM_FAMILY_GAUGE
	};
	static const struct gm_family devices = {
		"gpumap_cluster_devices", "Devices of the cluster's nodes.",
		NULL, GM_FAMILY_GAUGE
	};
	static const struct gm_family shares = {
		"gpumap_cluster_shares", "Shares of the cluster's nodes.", NULL,
		GM_FAMILY_GAUGE
	};
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };

	if (gpumap_cluster_read(map, &cluster) != 0)
		return;
	gm_exposition_family(e, &stale);
	gm_exposition_sample(e, NULL, cluster.stale);
	gm_exposition_family(e, &age);
	if (cluster.age_ns != UINT64_MAX)
		gm_exposition_sample(e, NULL, (double)cluster.age_ns / NS);
	write_nodes(e, &cluster);
	gm_exposition_family(e, &devices);
	gm_exposition_sample(e, NULL, cluster.n_devices);
	gm_exposition_family(e, &shares);
	gm_exposition_sample(e, NULL, cluster.n_shares);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Have the agent forget the cluster of which gpumap-sync told it. */

#include <stdio.h>

#include "agent/ctl/cluster/cluster.h"

int gm_ctl_cluster_leave(struct gm_ctl *ctl)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	struct gpumap_cluster_request none = {
		.size = sizeof(none),
		.name = cluster.name,
		.node = cluster.node,
		.flags = GPUMAP_CLUSTER_BEGIN,
	};
	int ret = gpumap_cluster_read(ctl->map, &cluster);

	none.limit_ns = cluster.limit_ns;

	if (ret == 0 && !cluster.stale) {
		fprintf(stderr,
			"gpumapctl: gpumap-sync tells of the cluster, and "
			"would again: stop it first\n");
		return GM_EXIT_FAILED;
	}
	if (ret == 0)
		ret = gpumap_cluster_publish(ctl->map, &none);
	return ret == 0 ? GM_EXIT_OK : gm_ctl_fail(ctl, ret, "cluster");
}

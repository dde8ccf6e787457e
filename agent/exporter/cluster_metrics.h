/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* cluster_metrics - how many nodes, devices and shares the cluster has, and how
 * old that is.  Each node has an exporter of its own for the rest. */
#ifndef GM_CLUSTER_METRICS_H
#define GM_CLUSTER_METRICS_H

#include "agent/exporter/exposition.h"
#include "gpumap.h"

/* Write the metrics, or none where this node is in no cluster.  No system
 * call. */
void gm_cluster_metrics_write(struct gm_exposition *e,
			      const struct gpumap *map);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * metrics - what the map says, as metrics.
 *
 * The labels of a device are those of DCGM's exporter (gpu, UUID, pci_bus_id,
 * device, modelName, GPU_I_PROFILE, GPU_I_ID, hostname), so that queries can
 * join the two, and before them gpumap's own: row, device_kind, numa_node.
 */
#ifndef GM_METRICS_H
#define GM_METRICS_H

#include "agent/exporter/exposition.h"
#include "agent/exporter/target.h"

struct gm_metrics_opts {
	bool openmetrics;
	bool usage; /* ask the agent for its lists, too */
};

/* Write all metrics.  Returns the text for free(), or NULL if memory was short.
 * Cost: no system call per row or map, unless the agent is asked; two for the
 * host's name. */
char *gm_metrics_write(struct gm_target *target,
		       const struct gm_metrics_opts *opts, size_t *ret_bytes);

#endif

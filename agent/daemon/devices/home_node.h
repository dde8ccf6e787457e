/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * home_node - the NUMA node that most of the devices are on, for gpumapd to run
 * on.
 *
 * Workers and clients of these devices read what gpumapd writes.  gpumapd
 * chooses before it has any row, from sysfs alone: a host row for each node,
 * and NVIDIA's cards.
 */
#ifndef GM_DAEMON_DEVICES_HOME_NODE_H
#define GM_DAEMON_DEVICES_HOME_NODE_H

#include "agent/common/numa_bind.h"
#include "agent/daemon/config.h"

/*
 * gm_home_node - choose it
 *
 * root		put before /sys, for tests with a machine of their own; NULL for
 *		this machine
 * ret_cpus	the node's CPUs that gpumapd may use
 *
 * Returns	the node, the lowest of those with as many devices; it has CPUs
 *		and memory that gpumapd may use
 *		-1	there is no choice
 */
int gm_home_node(const char *root, const struct gm_config *config,
		 const struct gm_numa_allowed *allowed,
		 struct gm_idset *ret_cpus);

#endif

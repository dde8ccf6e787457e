/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* control_cluster.h - the message of control.h about the nodes of a cluster. */
#ifndef GM_CONTROL_CLUSTER_H
#define GM_CONTROL_CLUSTER_H

#include "shm/control.h"

/*
 * CLUSTER: change what is published of nodes, as gpumap_cluster_publish() says.
 *
 * Tail: n_entries times a gm_cluster_node_image, its n_devices
 * gm_cluster_device_image and its n_shares gm_cluster_share_image.  These are
 * as in a block, but for @since, which is the time that has passed since then,
 * and for @first_device, @first_share and the @node of devices and shares,
 * which are 0.  A node with @state 0 is to be forgotten: only its name counts.
 * No reply body.
 */
struct gm_cluster_publish {
	char cluster[GM_NAME_BYTES];
	char node[GM_NAME_BYTES];
	uint64_t limit_ns;
	uint32_t n_entries;
	uint32_t flags; /* GPUMAP_CLUSTER_* */
};

_Static_assert(sizeof(struct gm_cluster_publish) == 144, "wire");

#endif

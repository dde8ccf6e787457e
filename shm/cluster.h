/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster - lay out and read the block of the cluster: its image, an image for
 * each node, then the devices of all nodes, then their shares.
 */
#ifndef GM_CLUSTER_H
#define GM_CLUSTER_H

#include "shm/objects.h"

/* A node to be published.  In private memory. */
struct gm_cluster_node {
	struct gm_cluster_node_image image;
	/* image.n_devices and image.n_shares of them */
	const struct gm_cluster_device_image *devices;
	const struct gm_cluster_share_image *shares;
};

/* The content of a block.  In private memory. */
struct gm_cluster {
	const char *cluster;
	const char *node;
	uint32_t owner_uid;
	uint32_t n_nodes;
	uint64_t published; /* ns since 1970 */
	uint64_t limit;
	uint64_t heard;
	const struct gm_cluster_node *const *nodes; /* by name, none twice */
};

/* Bytes that the block takes, a multiple of GM_UNIT. */
uint64_t gm_cluster_bytes(const struct gm_cluster *cluster);

/* Lay the block out in private memory: gm_cluster_bytes() / 8 words, to be
 * published as @version. */
void gm_cluster_build(const struct gm_cluster *cluster, uint64_t version,
		      uint64_t *ret_words);

/* Validate images that another process wrote: are their texts terminated and
 * padded, and their numbers in range?  The places of the node's devices and
 * shares are for others to check. */
bool gm_cluster_node_fits(const struct gm_cluster_node_image *node);
bool gm_cluster_device_fits(const struct gm_cluster_device_image *device);
bool gm_cluster_share_fits(const struct gm_cluster_share_image *share);

/*
 * gm_cluster_image - read and validate the image of an open object
 *
 * Returns	0, and its tables lie inside of the block
 *		-EAGAIN		it was published again meanwhile
 *		-EPROTO		it is damaged, or no cluster
 */
int gm_cluster_image(const struct gm_object *object,
		     struct gm_cluster_image *ret_image);

/*
 * gm_cluster_get_node - read and validate one entry of a validated image
 * gm_cluster_get_device, gm_cluster_get_share - likewise
 *
 * i		below image->n_nodes, n_devices, n_shares
 *
 * Returns	0, and the devices and shares of the node lie inside of the
 *		tables; the result is valid only if gm_object_whole() returns
 *		true afterwards
 *		-EPROTO		it is damaged
 */
int gm_cluster_get_node(const struct gm_object *object,
			const struct gm_cluster_image *image, uint32_t i,
			struct gm_cluster_node_image *ret_node);
int gm_cluster_get_device(const struct gm_object *object,
			  const struct gm_cluster_image *image, uint32_t i,
			  struct gm_cluster_device_image *ret_device);
int gm_cluster_get_share(const struct gm_object *object,
			 const struct gm_cluster_image *image, uint32_t i,
			 struct gm_cluster_share_image *ret_share);

/* Call gm_object_find() and gm_cluster_image().  Returns as they do. */
int gm_cluster_open(const struct gm_map *map, struct gm_object *ret_object,
		    struct gm_cluster_image *ret_image);

#endif

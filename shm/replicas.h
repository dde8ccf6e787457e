/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * replicas - lay out and read the block of a mask: its facts, and the place of
 * each row's bytes.
 *
 * The bytes are published with the block.  The agent writes a span of a node
 * segment while no slot names a block that names the span.  The agent writes
 * the span again only after the slots of all such blocks have moved on and no
 * process has the blocks pinned: edge SEQ.reuse of seq.h covers the words of a
 * span like those of a block.
 */
#ifndef GM_REPLICAS_H
#define GM_REPLICAS_H

#include "shm/objects.h"

/* Bytes that the block of a mask takes, a multiple of GM_UNIT. */
uint64_t gm_replicas_bytes(uint32_t n_replicas);

/*
 * gm_replicas_build - lay a block out in private memory
 *
 * image	all but object.kind, .bytes and .version, and replicas_at
 * replicas	image->n_replicas
 * ret_words	gm_replicas_bytes() / 8, to be published as @version
 */
void gm_replicas_build(const struct gm_mask_image *image,
		       const struct gm_replica_image *replicas,
		       uint64_t version, uint64_t *ret_words);

/*
 * gm_replicas_image - read and validate the image of an open mask
 *
 * Returns	0, and the replicas lie inside of the block
 *		-EAGAIN		it was published again meanwhile
 *		-EPROTO		it is damaged
 */
int gm_replicas_image(const struct gm_object *object,
		      struct gm_mask_image *ret_image);

/*
 * gm_replicas_read - read and validate one replica of a validated image
 *
 * i		below image->n_replicas
 *
 * Returns	0, -EPROTO.  The result is valid only if gm_object_whole()
 *		returns true afterwards.
 */
int gm_replicas_read(const struct gm_object *object,
		     const struct gm_mask_image *image, uint32_t i,
		     struct gm_replica_image *ret_replica);

/* Call gm_object_find() and gm_replicas_image().  Returns as they do. */
int gm_replicas_open(const struct gm_map *map, const char *name,
		     struct gm_object *ret_object,
		     struct gm_mask_image *ret_image);

/*
 * gm_replicas_check_node - is this the header of a node segment?
 *
 * bytes	of the file; at least the header is mapped
 *
 * Returns	0 with the time when it was made, or -EPROTO
 */
int gm_replicas_check_node(const struct gm_node_header *header, uint64_t bytes,
			   uint32_t node, uint64_t *ret_made);

#endif

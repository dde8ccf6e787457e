/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * replicas - the block of a mask: what it is, and where each row's bytes are.
 *
 * The bytes are published with the block.  A span of a node segment is written
 * while no slot names a block that names it, and written again only when the
 * slots of all that did have moved on and nobody has them pinned: edge
 * SEQ.reuse of seq.h covers the words of a span like those of a block.
 */
#ifndef GM_REPLICAS_H
#define GM_REPLICAS_H

#include "shm/objects.h"

/* Bytes that the block of a mask takes, a multiple of GM_UNIT. */
uint64_t gm_replicas_bytes(uint32_t n_replicas);

/*
 * gm_replicas_build - lay a block out in private memory
 *
 * image	all but object.kind, .bytes, .key and .version, and replicas_at
 * replicas	image->n_replicas
 * ret_words	gm_replicas_bytes() / 8, to be published as @version
 */
void gm_replicas_build(const struct gm_mask_image *image,
		       const struct gm_replica_image *replicas,
		       uint64_t version, uint64_t *ret_words);

/*
 * gm_replicas_image - the image of a mask that has been opened, judged
 *
 * Returns	0, and the replicas lie where it says
 *		-EAGAIN		it was published anew meanwhile
 *		-EPROTO		it is damaged
 */
int gm_replicas_image(const struct gm_object *object,
		      struct gm_mask_image *ret_image);

/*
 * gm_replicas_read - one replica of a judged image, judged
 *
 * i		below image->n_replicas
 *
 * Returns	0, -EPROTO.  It counts once gm_object_whole() has said so.
 */
int gm_replicas_read(const struct gm_object *object,
		     const struct gm_mask_image *image, uint32_t i,
		     struct gm_replica_image *ret_replica);

/* gm_object_find() and gm_replicas_image() in one.  Returns as they do. */
int gm_replicas_open(const struct gm_map *map, const char *name,
		     struct gm_object *ret_object,
		     struct gm_mask_image *ret_image);

/*
 * gm_replicas_judge_node - is this file's start that of a node segment?
 *
 * bytes	of the file, of which the header is mapped at least
 *
 * Returns	0 with when it was made, or -EPROTO
 */
int gm_replicas_judge_node(const struct gm_node_header *header, uint64_t bytes,
			   uint32_t node, uint64_t *ret_made);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/replicas.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(struct gm_mask_image) % 8 == 0 &&
		       sizeof(struct gm_replica_image) % 8 == 0,
	       "whole words");

uint64_t gm_replicas_bytes(uint32_t n_replicas)
{
	uint64_t bytes = sizeof(struct gm_mask_image) +
			 (uint64_t)n_replicas * sizeof(struct gm_replica_image);

	return (bytes + GM_UNIT - 1) / GM_UNIT * GM_UNIT;
}

void gm_replicas_build(const struct gm_mask_image *image,
		       const struct gm_replica_image *replicas,
		       uint64_t version, uint64_t *ret_words)
{
	uint64_t bytes = gm_replicas_bytes(image->n_replicas);
	char *block = (char *)ret_words;
	struct gm_mask_image ours = *image;

	ours.object.kind = GM_KIND_MASK;
	ours.object.bytes = (uint32_t)bytes;
	ours.object.image_bytes = sizeof(ours);
	ours.object.version = version;
	ours.replicas_at = sizeof(ours);
	memset(block, 0, bytes);
	memcpy(block, &ours, sizeof(ours));
	memcpy(block + sizeof(ours), replicas,
	       image->n_replicas * sizeof(*replicas));
}

static bool is_tensor(const struct gm_mask_image *image)
{
	uint64_t bytes = 0;

	if (image->rank > GM_MASK_RANK_MAX)
		return false;
	for (uint32_t i = image->rank; i-- > 0;) {
		/* A step of this dimension spans all elements of the next
		 * one. */
		if (i + 1 < image->rank && image->strides[i] != bytes)
			return false;
		if (__builtin_mul_overflow(image->shape[i], image->strides[i],
					   &bytes))
			return false;
	}
	return image->bytes == bytes;
}

int gm_replicas_image(const struct gm_object *object,
		      struct gm_mask_image *ret_image)
{
	struct gm_mask_image image;

	if (gm_object_read_image(object, &image, sizeof(image),
				 GM_MASK_IMAGE_LEAST) != 0)
		return -EPROTO;
	if (!gm_object_whole(object))
		return -EAGAIN;
	if (image.object.kind != GM_KIND_MASK || image.n_replicas == 0 ||
	    image.n_replicas > GM_ROWS || image.replicas_at % 8 != 0 ||
	    image.replicas_at < image.object.image_bytes ||
	    !gm_check_span(image.replicas_at,
			   image.n_replicas * sizeof(struct gm_replica_image),
			   object->image.bytes) ||
	    image.map[GM_NAME_BYTES - 1] != '\0' || !is_tensor(&image))
		return -EPROTO;
	*ret_image = image;
	return 0;
}

int gm_replicas_read(const struct gm_object *object,
		     const struct gm_mask_image *image, uint32_t i,
		     struct gm_replica_image *ret_replica)
{
	struct gm_replica_image replica;

	if (gm_object_read(object, image->replicas_at + i * sizeof(replica),
			   &replica, sizeof(replica)) != 0)
		return -EPROTO;
	if (replica.row >= GM_ROWS || replica.place > GM_REPLICA_DEVICE ||
	    replica.bytes != image->bytes ||
	    (replica.place == GM_REPLICA_NOWHERE) != (image->bytes == 0) ||
	    (replica.place != GM_REPLICA_NOWHERE &&
	     (replica.node >= GM_NODES || replica.at % GM_SPAN_UNIT != 0 ||
	      replica.at < GM_SPAN_UNIT)))
		return -EPROTO;
	*ret_replica = replica;
	return 0;
}

int gm_replicas_open(const struct gm_map *map, const char *name,
		     struct gm_object *ret_object,
		     struct gm_mask_image *ret_image)
{
	struct gm_object object;
	int ret = -EAGAIN;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++) {
		ret = gm_object_find(map, GM_KIND_MASK, name, &object);
		if (ret == 0)
			ret = gm_replicas_image(&object, ret_image);
	}
	if (ret == 0)
		*ret_object = object;
	return ret;
}

int gm_replicas_check_node(const struct gm_node_header *header, uint64_t bytes,
			   uint32_t node, uint64_t *ret_made)
{
	if (bytes < sizeof(*header) ||
	    gm_get(&header->magic) != GM_NODE_MAGIC ||
	    gm_get(&header->byte_order) != GM_BYTE_ORDER ||
	    gm_get(&header->major) != GM_LAYOUT_MAJOR ||
	    gm_get(&header->node) != node || gm_get(&header->size) != bytes ||
	    gm_get(&header->made) == 0)
		return -EPROTO;
	*ret_made = gm_get(&header->made);
	return 0;
}

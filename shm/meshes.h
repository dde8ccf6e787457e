/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * meshes - lay out and read the block of a mesh: its image, an image for each
 * group, then for each group its ranks and the rows that they are on.
 */
#ifndef GM_MESHES_H
#define GM_MESHES_H

#include "shm/objects.h"

/* In private memory. */
struct gm_meshes_group {
	const char *name;
	uint32_t backend;
	uint32_t n;            /* 1 to the world */
	const uint32_t *ranks; /* n, each below the world, none twice */
};

/* The content of a block.  In private memory. */
struct gm_meshes {
	const char *name;
	uint32_t owner_uid;
	uint32_t topology;
	uint32_t tp;
	uint32_t pp;
	uint32_t dp;
	uint32_t world;
	uint64_t published;   /* ns since 1970 */
	const uint32_t *rows; /* world, none twice */
	uint32_t n_groups;    /* the first has all ranks in order */
	uint32_t n_added;
	const struct gm_meshes_group *groups;
};

/* Bytes that the block takes, a multiple of GM_UNIT. */
uint64_t gm_meshes_bytes(const struct gm_meshes *mesh);

/* Lay the block out in private memory: gm_meshes_bytes() / 8 words, to be
 * published as @version; its groups have no epoch yet, 0. */
void gm_meshes_build(const struct gm_meshes *mesh, uint64_t version,
		     uint64_t *ret_words);

/* Were all rows of the group READY in this epoch of it? */
static inline bool gm_meshes_is_whole(uint64_t epoch)
{
	return (epoch & 1) == 0;
}

/*
 * gm_meshes_image - read and validate the image of an open object
 *
 * Returns	0, and the groups lie inside of the block
 *		-EAGAIN		it was published again meanwhile
 *		-EPROTO		it is damaged, or no mesh
 */
int gm_meshes_image(const struct gm_object *object,
		    struct gm_mesh_image *ret_image);

/*
 * gm_meshes_group - read and validate one group of a validated image
 *
 * i		below image->n_groups
 *
 * Returns	0, and its ranks and rows lie inside of the block; the result is
 *		valid only if gm_object_whole() returns true afterwards
 *		-EPROTO		it is damaged
 */
int gm_meshes_group(const struct gm_object *object,
		    const struct gm_mesh_image *image, uint32_t i,
		    struct gm_group_image *ret_group);

/* Read the first @n entries of a table of a validated group: ranks_at or
 * rows_at.  The result is valid only if gm_object_whole() returns true
 * afterwards. */
int gm_meshes_table(const struct gm_object *object, uint32_t at,
		    uint32_t *ret_entries, uint32_t n);

/* Call gm_object_find() and gm_meshes_image().  Returns as they do. */
int gm_meshes_open(const struct gm_map *map, const char *name,
		   struct gm_object *ret_object,
		   struct gm_mesh_image *ret_image);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/meshes.h"

#include <errno.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------- */

/* Bytes of a table of @n entries: whole words. */
static uint64_t table_bytes(uint32_t n)
{
	return ((uint64_t)n + 1) / 2 * 8;
}

uint64_t gm_meshes_bytes(const struct gm_meshes *mesh)
{
	uint64_t bytes = sizeof(struct gm_mesh_image) +
			 mesh->n_groups * sizeof(struct gm_group_image);

	for (uint32_t i = 0; i < mesh->n_groups; i++)
		bytes += 2 * table_bytes(mesh->groups[i].n);
	return (bytes + GM_UNIT - 1) / GM_UNIT * GM_UNIT;
}

static void put_group(const struct gm_meshes *mesh, uint32_t i, char *block,
		      uint32_t at)
{
	const struct gm_meshes_group *group = &mesh->groups[i];
	struct gm_group_image image;
	uint32_t *rows;

	memset(&image, 0, sizeof(image));
	memcpy(image.name, group->name, gm_object_name(group->name));
	image.backend = group->backend;
	image.n = group->n;
	image.ranks_at = at;
	image.rows_at = at + (uint32_t)table_bytes(group->n);
	memcpy(block + image.ranks_at, group->ranks,
	       group->n * sizeof(uint32_t));
	rows = (uint32_t *)(void *)(block + image.rows_at);
	for (uint32_t j = 0; j < group->n; j++)
		rows[j] = mesh->rows[group->ranks[j]];
	memcpy(block + sizeof(struct gm_mesh_image) + i * sizeof(image), &image,
	       sizeof(image));
}

void gm_meshes_build(const struct gm_meshes *mesh, uint64_t version,
		     uint64_t *ret_words)
{
	uint64_t bytes = gm_meshes_bytes(mesh);
	char *block = (char *)ret_words;
	struct gm_mesh_image image;
	uint32_t at = sizeof(image) +
		      mesh->n_groups * (uint32_t)sizeof(struct gm_group_image);

	memset(block, 0, bytes);
	for (uint32_t i = 0; i < mesh->n_groups; i++) {
		put_group(mesh, i, block, at);
		at += 2 * (uint32_t)table_bytes(mesh->groups[i].n);
	}
	memset(&image, 0, sizeof(image));
	image.object.kind = GM_KIND_MESH;
	image.object.bytes = (uint32_t)bytes;
	image.object.image_bytes = sizeof(image);
	image.object.version = version;
	image.object.published = mesh->published;
	image.object.owner_uid = mesh->owner_uid;
	memcpy(image.object.name, mesh->name, gm_object_name(mesh->name));
	image.topology = mesh->topology;
	image.world = mesh->world;
	image.tp = mesh->tp;
	image.pp = mesh->pp;
	image.dp = mesh->dp;
	image.n_groups = mesh->n_groups;
	image.n_added = mesh->n_added;
	image.groups_at = sizeof(image);
	memcpy(block, &image, sizeof(image));
}

/* ---- reading ------------------------------------------------------------- */

static bool inside(uint32_t at, uint64_t bytes, const struct gm_object *object)
{
	return at % 8 == 0 && at >= object->image.image_bytes &&
	       gm_check_span(at, bytes, object->image.bytes);
}

/* Is the product of the factors at most the world's size?  Each factor is at
 * most GM_ROWS, so the product cannot overflow 64 bits. */
static bool is_shape(const struct gm_mesh_image *image)
{
	return image->tp != 0 && image->pp != 0 && image->dp != 0 &&
	       image->tp <= GM_ROWS && image->pp <= GM_ROWS &&
	       image->dp <= GM_ROWS &&
	       (uint64_t)image->tp * image->pp * image->dp <= image->world;
}

int gm_meshes_image(const struct gm_object *object,
		    struct gm_mesh_image *ret_image)
{
	struct gm_mesh_image image;

	if (gm_object_read_image(object, &image, sizeof(image),
				 GM_MESH_IMAGE_LEAST) != 0)
		return -EPROTO;
	if (!gm_object_whole(object))
		return -EAGAIN;
	if (image.object.kind != GM_KIND_MESH || image.topology == 0 ||
	    image.topology > 4 || image.world == 0 || image.world > GM_ROWS ||
	    !is_shape(&image) || image.n_groups == 0 ||
	    image.n_groups > GM_MESH_GROUPS ||
	    image.n_added >= image.n_groups ||
	    !inside(image.groups_at,
		    image.n_groups * sizeof(struct gm_group_image), object))
		return -EPROTO;
	*ret_image = image;
	return 0;
}

int gm_meshes_group(const struct gm_object *object,
		    const struct gm_mesh_image *image, uint32_t i,
		    struct gm_group_image *ret_group)
{
	struct gm_group_image group;

	if (gm_object_read(object, image->groups_at + i * sizeof(group), &group,
			   sizeof(group)) != 0 ||
	    group.n == 0 || group.n > image->world || group.name[0] == '\0' ||
	    group.name[GM_NAME_BYTES - 1] != '\0' ||
	    !inside(group.ranks_at, table_bytes(group.n), object) ||
	    !inside(group.rows_at, table_bytes(group.n), object))
		return -EPROTO;
	*ret_group = group;
	return 0;
}

int gm_meshes_table(const struct gm_object *object, uint32_t at,
		    uint32_t *ret_entries, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += 2) {
		uint32_t pair[2];

		if (gm_object_read(object, at + 4 * (uint64_t)i, pair, 8) != 0)
			return -EPROTO;
		ret_entries[i] = pair[0];
		if (i + 1 < n)
			ret_entries[i + 1] = pair[1];
	}
	return 0;
}

int gm_meshes_open(const struct gm_map *map, const char *name,
		   struct gm_object *ret_object,
		   struct gm_mesh_image *ret_image)
{
	struct gm_object object;
	int ret = -EAGAIN;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++) {
		ret = gm_object_find(map, GM_KIND_MESH, name, &object);
		if (ret == 0)
			ret = gm_meshes_image(&object, ret_image);
	}
	if (ret == 0)
		*ret_object = object;
	return ret;
}

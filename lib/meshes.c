/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>

#include "shm/meshes.h"

/* ---- a mesh -------------------------------------------------------------- */

static int read_once(const struct gpumap *map, const char *name,
		     struct gpumap_mesh *mesh, uint32_t *ret_rows, size_t n)
{
	struct gm_mesh_image image;
	struct gm_group_image world;
	struct gm_object object;
	int ret = gm_meshes_open(&map->map, name, &object, &image);

	if (ret != 0)
		return ret;
	memcpy(mesh->name, image.object.name, sizeof(mesh->name));
	mesh->version = image.object.version;
	mesh->published_ns = image.object.published;
	mesh->owner_uid = image.object.owner_uid;
	mesh->topology = image.topology;
	mesh->world = image.world;
	mesh->expected = image.tp * image.pp * image.dp;
	mesh->tp = image.tp;
	mesh->pp = image.pp;
	mesh->dp = image.dp;
	mesh->n_groups = image.n_groups;
	mesh->n_added = image.n_added;
	if (ret_rows != NULL)
		ret = gm_meshes_group(&object, &image, 0, &world);
	if (ret == 0 && ret_rows != NULL && world.n != image.world)
		ret = -EPROTO;
	if (ret == 0 && ret_rows != NULL && n < image.world)
		ret = -ENOBUFS;
	if (ret == 0 && ret_rows != NULL)
		ret = gm_meshes_table(&object, world.rows_at, ret_rows,
				      world.n);
	return gm_object_whole(&object) ? ret : -EAGAIN;
}

int gpumap_mesh_read(const struct gpumap *map, const char *name,
		     struct gpumap_mesh *ret_mesh, uint32_t *ret_rows, size_t n)
{
	struct gpumap_mesh mesh = { 0 };
	int ret = -EAGAIN;

	if (ret_mesh != NULL) {
		int error = gm_size_out(ret_mesh,
					offsetof(struct gpumap_mesh, version));
		if (error != 0)
			return error;
	}
	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
		ret = read_once(map, name, &mesh, ret_rows, n);
	if (ret_mesh != NULL && (ret == 0 || ret == -ENOBUFS))
		gm_size_put(ret_mesh, &mesh, sizeof(mesh));
	return ret;
}

int gpumap_mesh_next(const struct gpumap *map, uint32_t *cursor,
		     char ret_name[GPUMAP_NAME_MAX + 1])
{
	return gm_layers_next_name(map, GM_KIND_MESH, cursor, ret_name);
}

/* ---- groups -------------------------------------------------------------- */

/* A group that is being read, in one attempt. */
struct reading {
	struct gm_object object;
	struct gm_mesh_image image;
	struct gm_group_image group;
	uint32_t index;
	uint32_t within;
};

static void put_group(struct gpumap_mesh_group *group, const struct reading *r)
{
	memcpy(group->name, r->group.name, sizeof(group->name));
	group->version = r->image.object.version;
	group->epoch = r->group.epoch;
	group->backend = r->group.backend;
	group->n = r->group.n;
	group->index = r->index;
	group->within = r->within;
	group->whole = gm_meshes_is_whole(r->group.epoch);
}

static int find_group(const struct gpumap *map, const char *name,
		      const char *group, struct reading *r)
{
	int ret = gm_meshes_open(&map->map, name, &r->object, &r->image);

	if (ret != 0)
		return ret;
	for (r->index = 0; r->index < r->image.n_groups; r->index++) {
		ret = gm_meshes_group(&r->object, &r->image, r->index,
				      &r->group);
		if (ret != 0 || strcmp(r->group.name, group) == 0)
			break;
	}
	if (ret == 0 && r->index == r->image.n_groups)
		ret = -ENOENT;
	return gm_object_whole(&r->object) ? ret : -EAGAIN;
}

/* Find the rank in the group.  Returns 1 with its place in @r->within, or 0. */
static int find_rank(struct reading *r, uint32_t rank)
{
	uint32_t ranks[GM_ROWS];

	if (gm_meshes_table(&r->object, r->group.ranks_at, ranks, r->group.n))
		return -EPROTO;
	for (uint32_t i = 0; i < r->group.n; i++) {
		if (ranks[i] == rank) {
			r->within = i;
			return 1;
		}
	}
	return 0;
}

/* The caller's arrays for the ranks of a group. */
struct members {
	uint32_t *ranks; /* or NULL */
	uint32_t *rows;  /* or NULL */
	size_t n;        /* elements of each */
};

static int group_once(const struct gpumap *map, const char *name,
		      const char *group, const struct members *to,
		      struct gpumap_mesh_group *ret_group)
{
	struct reading r = { .within = 0 };
	int ret = find_group(map, name, group, &r);

	if (ret != 0)
		return ret;
	put_group(ret_group, &r);
	if ((to->ranks != NULL || to->rows != NULL) && to->n < r.group.n)
		ret = -ENOBUFS;
	if (ret == 0 && to->ranks != NULL)
		ret = gm_meshes_table(&r.object, r.group.ranks_at, to->ranks,
				      r.group.n);
	if (ret == 0 && to->rows != NULL)
		ret = gm_meshes_table(&r.object, r.group.rows_at, to->rows,
				      r.group.n);
	return gm_object_whole(&r.object) ? ret : -EAGAIN;
}

/* "world" for NULL; NULL for a name that no group can have. */
static const char *group_name(const char *name, const char *group)
{
	if (group == NULL)
		group = "world";
	return gm_object_name(name) != 0 && gm_object_name(group) != 0 ? group
								       : NULL;
}

static int check_size(const struct gpumap_mesh_group *group)
{
	return gm_size_out(group, offsetof(struct gpumap_mesh_group, version));
}

int gpumap_mesh_group(const struct gpumap *map, const char *name,
		      const char *group, struct gpumap_mesh_group *ret_group,
		      uint32_t *ret_ranks, uint32_t *ret_rows, size_t n)
{
	const struct members to = { ret_ranks, ret_rows, n };
	struct gpumap_mesh_group ours = { 0 };
	int ret = ret_group != NULL ? check_size(ret_group) : 0;

	if (ret != 0)
		return ret;
	group = group_name(name, group);
	if (group == NULL)
		return -EINVAL;
	ret = -EAGAIN;
	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
		ret = group_once(map, name, group, &to, &ours);
	if (ret_group != NULL && (ret == 0 || ret == -ENOBUFS))
		gm_size_put(ret_group, &ours, sizeof(ours));
	return ret;
}

/* Find the first group from @from on that contains the rank. */
static int next_once(const struct gpumap *map, const char *name, uint32_t rank,
		     uint32_t from, struct reading *r)
{
	int ret = gm_meshes_open(&map->map, name, &r->object, &r->image);

	if (ret != 0)
		return ret;
	if (rank != GPUMAP_MESH_ANY && rank >= r->image.world)
		return -ERANGE;
	for (r->index = from; ret == 0 && r->index < r->image.n_groups;
	     r->index++) {
		ret = gm_meshes_group(&r->object, &r->image, r->index,
				      &r->group);
		if (ret == 0)
			ret = rank == GPUMAP_MESH_ANY ? 1 : find_rank(r, rank);
		if (ret != 0)
			break;
	}
	return gm_object_whole(&r->object) ? ret : -EAGAIN;
}

int gpumap_mesh_next_group(const struct gpumap *map, const char *name,
			   uint32_t rank, uint32_t *cursor,
			   struct gpumap_mesh_group *ret_group)
{
	struct gpumap_mesh_group group = { 0 };
	struct reading r = { .within = 0 };
	int ret = check_size(ret_group);

	if (ret != 0)
		return ret;
	ret = -EAGAIN;
	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
		ret = next_once(map, name, rank, *cursor, &r);
	if (ret != 1)
		return ret;
	put_group(&group, &r);
	gm_size_put(ret_group, &group, sizeof(group));
	*cursor = r.index + 1;
	return 1;
}

static int within_once(const struct gpumap *map, const char *name,
		       const char *group, uint32_t rank)
{
	struct reading r;
	int ret = find_group(map, name, group, &r);

	if (ret != 0)
		return ret;
	ret = rank < r.image.world ? find_rank(&r, rank) : -ERANGE;
	if (!gm_object_whole(&r.object))
		return -EAGAIN;
	if (ret == 1)
		return (int)r.within;
	return ret == 0 ? -ENODATA : ret;
}

int gpumap_mesh_within(const struct gpumap *map, const char *name,
		       const char *group, uint32_t rank)
{
	int ret = -EAGAIN;

	group = group_name(name, group);
	if (group == NULL)
		return -EINVAL;
	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
		ret = within_once(map, name, group, rank);
	return ret;
}

/* ---- places, sums -------------------------------------------------------- */

int gpumap_mesh_place(const struct gpumap_mesh *mesh, uint32_t rank,
		      struct gpumap_mesh_place *ret_place)
{
	struct gpumap_mesh_place place;
	uint32_t n;

	if (mesh == NULL || mesh->tp == 0 || mesh->pp == 0 || mesh->dp == 0)
		return -EINVAL;
	if (rank >= mesh->world)
		return -ERANGE;
	n = mesh->dp;
	place.tp = rank % mesh->tp;
	place.pp = rank / mesh->tp % mesh->pp;
	place.dp = rank / mesh->tp / mesh->pp;
	if (mesh->topology == GPUMAP_MESH_DATA)
		n = mesh->world;
	else if (mesh->topology == GPUMAP_MESH_TENSOR)
		n = mesh->world / mesh->tp;
	if (place.dp >= n)
		return -ENODATA;
	*ret_place = place;
	return 0;
}

static int add_row(const struct gpumap *map, uint32_t row,
		   struct gpumap_mesh_stats *stats)
{
	struct gpumap_device device = { .size = sizeof(device) };
	int ret = gpumap_device_read(map, row, &device);

	if (ret != 0)
		return ret == -EINVAL ? -EPROTO : ret;
	stats->total_bytes += device.total_bytes;
	stats->units += device.units;
	if ((device.flags & GPUMAP_DEVICE_CARD) != 0)
		stats->n_cards++;
	else if ((device.flags & GPUMAP_DEVICE_SERVES) != 0)
		stats->n_host++;
	else
		stats->n_dummy++;
	stats->n_ready += device.state == GPUMAP_DEVICE_READY;
	return 0;
}

int gpumap_mesh_stats(const struct gpumap *map, const char *name,
		      struct gpumap_mesh_stats *ret_stats)
{
	struct gpumap_mesh_stats stats = { 0 };
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	uint32_t rows[GPUMAP_ROWS_MAX];
	int ret = gm_size_out(ret_stats,
			      offsetof(struct gpumap_mesh_stats, total_bytes));

	if (ret == 0)
		ret = gpumap_mesh_read(map, name, &mesh, rows, GPUMAP_ROWS_MAX);
	if (ret != 0)
		return ret;
	stats.world = mesh.world;
	stats.n_groups = mesh.n_groups;
	for (uint32_t i = 0; i < mesh.world && ret == 0; i++)
		ret = add_row(map, rows[i], &stats);
	if (ret == 0)
		gm_size_put(ret_stats, &stats, sizeof(stats));
	return ret;
}

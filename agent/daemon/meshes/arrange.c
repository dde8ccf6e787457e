/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/arrange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int check_rows(const struct gm_arrange_ask *ask, char *ret_why)
{
	bool taken[GM_ROWS] = { false };

	if (ask->n_rows == 0)
		return gm_why(ret_why, -EINVAL, "a mesh has one rank or more");
	if (ask->n_rows > GM_ROWS)
		return gm_why(ret_why, -E2BIG, "a mesh has at most %u ranks",
			      GM_ROWS);
	for (uint32_t i = 0; i < ask->n_rows; i++) {
		uint32_t row = ask->rows[i];

		if (row >= GM_ROWS)
			return gm_why(ret_why, -EINVAL, "row %u is none", row);
		if (taken[row])
			return gm_why(ret_why, -EINVAL,
				      "row %u is given twice: each rank needs "
				      "a row of its own",
				      row);
		taken[row] = true;
	}
	return 0;
}

static int add_groups(struct gm_mesh *mesh, const struct gm_arrange_ask *ask,
		      struct gm_plan_error *error)
{
	int ret = 0;

	for (uint32_t i = 0; i < ask->n_added && ret == 0; i++) {
		const struct gm_meshes_group *group = &ask->added[i];
		uint64_t ranks[GM_ROWS];
		uint32_t before = mesh->n_added;

		if (group->n > GM_ROWS)
			return gm_error_set(error, -E2BIG, "give fewer ranks",
					    "Group '%s' has more than %u ranks",
					    group->name, GM_ROWS);
		for (uint32_t k = 0; k < group->n; k++)
			ranks[k] = group->ranks[k];
		ret = gm_mesh_add(mesh, group->name, group->backend, ranks,
				  group->n, error);
		if (ret == 0 && mesh->n_added == before)
			ret = gm_error_set(error, -EINVAL, "give each once",
					   "Group '%s' is given twice",
					   group->name);
	}
	return ret;
}

static void get_group(const struct gm_mesh *mesh, uint32_t i,
		      struct gm_mesh_group *ret_group)
{
	if (i < mesh->n_shaped)
		gm_mesh_group(mesh, i, ret_group);
	else
		*ret_group = mesh->added[i - mesh->n_shaped];
}

/* In one piece: groups, names, ranks, rows. */
struct room {
	struct gm_meshes_group *groups;
	char (*names)[GM_MESH_GROUP_NAME];
	uint32_t *ranks;
	uint32_t *rows;
};

static void *make_room(const struct gm_mesh *mesh, uint32_t n_groups,
		       struct room *ret_room)
{
	uint64_t n_ranks = mesh->world;
	struct room room;
	char *memory;

	for (uint32_t i = 0; i < n_groups; i++) {
		struct gm_mesh_group group;

		get_group(mesh, i, &group);
		n_ranks += group.n;
	}
	memory = calloc(
		1, n_groups * (sizeof(*room.groups) + sizeof(*room.names)) +
			   n_ranks * sizeof(uint32_t));
	if (memory == NULL)
		return NULL;
	room.groups = (struct gm_meshes_group *)(void *)memory;
	room.names = (void *)(room.groups + n_groups);
	room.rows = (uint32_t *)(void *)(room.names + n_groups);
	room.ranks = room.rows + mesh->world;
	*ret_room = room;
	return memory;
}

static void fill_room(const struct gm_mesh *mesh, uint32_t n_groups,
		      struct room *room)
{
	uint32_t *ranks = room->ranks;

	for (uint32_t i = 0; i < n_groups; i++) {
		struct gm_mesh_group group;

		get_group(mesh, i, &group);
		memcpy(room->names[i], group.name, sizeof(group.name));
		room->groups[i] = (struct gm_meshes_group){
			.name = room->names[i],
			.backend = group.backend,
			.n = (uint32_t)group.n,
			.ranks = ranks,
		};
		for (uint64_t k = 0; k < group.n; k++)
			*ranks++ = (uint32_t)gm_mesh_rank(&group, k);
	}
}

static int describe(const struct gm_arrange_ask *ask,
		    const struct gm_mesh *mesh, char *ret_why,
		    struct gm_arranged *ret)
{
	uint32_t n_groups = (uint32_t)mesh->n_shaped + mesh->n_added;
	struct gm_arranged arranged;
	struct room room;

	arranged.memory = make_room(mesh, n_groups, &room);
	if (arranged.memory == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	fill_room(mesh, n_groups, &room);
	memcpy(room.rows, ask->rows, ask->n_rows * sizeof(uint32_t));
	arranged.mesh = (struct gm_meshes){
		.name = ask->name,
		.owner_uid = ask->uid,
		.topology = mesh->shape.kind,
		.tp = (uint32_t)mesh->shape.tp,
		.pp = (uint32_t)mesh->shape.pp,
		.dp = (uint32_t)mesh->shape.dp,
		.world = ask->n_rows,
		.rows = room.rows,
		.n_groups = n_groups,
		.n_added = mesh->n_added,
		.groups = room.groups,
	};
	*ret = arranged;
	return 0;
}

/* A world on rows has at most three groups for each of its ranks, and one. */
_Static_assert(1 + 3 * GM_ROWS + GM_MESH_ADDED <= GM_MESH_GROUPS,
	       "no shape has too many groups");
_Static_assert(GM_MESH_GROUP_NAME == GM_NAME_BYTES, "names fit");

int gm_arrange(const struct gm_arrange_ask *ask, char ret_why[GM_WHY_BYTES],
	       struct gm_arranged *ret)
{
	struct gm_plan_error error = { .code = 0 };
	struct gm_mesh mesh = { .n_added = 0 };
	int r = check_rows(ask, ret_why);

	if (r != 0)
		return r;
	if (ask->n_added > GM_MESH_ADDED)
		return gm_why(ret_why, -E2BIG,
			      "a mesh has at most %u groups beside those of "
			      "its topology",
			      GM_MESH_ADDED);
	r = gm_mesh_make(&ask->shape, ask->n_rows, &mesh, &error);
	if (r == 0)
		r = add_groups(&mesh, ask, &error);
	if (r == 0)
		r = describe(ask, &mesh, ret_why, ret);
	else
		gm_error_explain(&error, ret_why, GM_WHY_BYTES);
	gm_mesh_free(&mesh);
	return r;
}

void gm_arranged_free(struct gm_arranged *arranged)
{
	free(arranged->memory);
	arranged->memory = NULL;
}

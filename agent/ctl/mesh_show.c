/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show a mesh: a picture of its ranks, and a table of its groups. */

#include "agent/ctl/mesh.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A whole mesh in private memory, of one version. */
struct whole {
	struct gpumap_mesh head;
	struct gpumap_mesh_stats stats;
	uint32_t rows[GPUMAP_ROWS_MAX];
	struct gpumap_mesh_group *groups; /* head.n_groups */
	uint32_t (*ranks)[GPUMAP_ROWS_MAX];
};

static void forget(struct whole *mesh)
{
	free(mesh->groups);
	free(mesh->ranks);
	*mesh = (struct whole){ .groups = NULL };
}

static int read_groups(const struct gm_ctl *ctl, const char *name,
		       struct whole *mesh)
{
	uint32_t cursor = 0;
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < mesh->head.n_groups; i++) {
		struct gpumap_mesh_group *group = &mesh->groups[i];

		group->size = sizeof(*group);
		ret = gpumap_mesh_next_group(ctl->map, name, GPUMAP_MESH_ANY,
					     &cursor, group);
		if (ret == 1)
			ret = gpumap_mesh_group(ctl->map, name, group->name,
						group, mesh->ranks[i], NULL,
						GPUMAP_ROWS_MAX);
		else if (ret == 0)
			ret = -EAGAIN;
		if (ret == 0 && group->version != mesh->head.version)
			ret = -EAGAIN;
	}
	return ret;
}

/* Read the whole mesh; retry if it is published again between the calls. */
static int read_mesh(const struct gm_ctl *ctl, const char *name,
		     struct whole *ret_mesh)
{
	struct whole mesh = { .groups = NULL };
	int ret;

	do {
		forget(&mesh);
		mesh.head.size = sizeof(mesh.head);
		mesh.stats.size = sizeof(mesh.stats);
		ret = gpumap_mesh_read(ctl->map, name, &mesh.head, mesh.rows,
				       GPUMAP_ROWS_MAX);
		if (ret == 0)
			ret = gpumap_mesh_stats(ctl->map, name, &mesh.stats);
		if (ret != 0)
			break;
		mesh.groups = calloc(mesh.head.n_groups, sizeof(*mesh.groups));
		mesh.ranks = calloc(mesh.head.n_groups, sizeof(*mesh.ranks));
		ret = mesh.groups != NULL && mesh.ranks != NULL
			      ? read_groups(ctl, name, &mesh)
			      : -ENOMEM;
	} while (ret == -EAGAIN);
	if (ret != 0)
		forget(&mesh);
	else
		*ret_mesh = mesh;
	return ret;
}

static const char *backend_of(const struct gpumap_mesh_group *group)
{
	return group->backend >= GPUMAP_MESH_MOCK &&
			       group->backend <= GPUMAP_MESH_MPI
		       ? gm_mesh_backend_name(group->backend)
		       : "?";
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *rank_json(const struct whole *mesh, uint32_t rank)
{
	struct gpumap_mesh_place at;
	json_t *object = json_pack("{s:I, s:I}", "rank", (json_int_t)rank,
				   "row", (json_int_t)mesh->rows[rank]);
	bool has = gpumap_mesh_place(&mesh->head, rank, &at) == 0;

	json_object_set_new(object, "tp",
			    has ? json_integer(at.tp) : json_null());
	json_object_set_new(object, "pp",
			    has ? json_integer(at.pp) : json_null());
	json_object_set_new(object, "dp",
			    has ? json_integer(at.dp) : json_null());
	return object;
}

static json_t *group_json(const struct whole *mesh, uint32_t i)
{
	const struct gpumap_mesh_group *group = &mesh->groups[i];
	json_t *ranks = json_array(), *rows = json_array();

	for (uint32_t k = 0; k < group->n; k++) {
		uint32_t rank = mesh->ranks[i][k];

		json_array_append_new(ranks, json_integer(rank));
		json_array_append_new(rows, json_integer(mesh->rows[rank]));
	}
	return json_pack("{s:s, s:s, s:I, s:b, s:o, s:o}", "name", group->name,
			 "backend", backend_of(group), "epoch",
			 (json_int_t)group->epoch, "whole", (int)group->whole,
			 "ranks", ranks, "rows", rows);
}

static int show_json(const struct whole *mesh)
{
	json_t *object = gm_ctl_mesh_head(&mesh->head), *ranks = json_array(),
	       *groups = json_array();

	for (uint32_t rank = 0; rank < mesh->head.world; rank++)
		json_array_append_new(ranks, rank_json(mesh, rank));
	for (uint32_t i = 0; i < mesh->head.n_groups; i++)
		json_array_append_new(groups, group_json(mesh, i));
	json_object_set_new(object, "ranks", ranks);
	json_object_set_new(object, "groups", groups);
	json_object_set_new(
		object, "stats",
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "total_bytes",
			  (json_int_t)mesh->stats.total_bytes, "units",
			  (json_int_t)mesh->stats.units, "n_cards",
			  (json_int_t)mesh->stats.n_cards, "n_host",
			  (json_int_t)mesh->stats.n_host, "n_dummy",
			  (json_int_t)mesh->stats.n_dummy, "n_ready",
			  (json_int_t)mesh->stats.n_ready));
	return gm_ctl_print(object);
}

/* ---- the picture --------------------------------------------------------- */

static void border(uint32_t n, const char *indent)
{
	fputs(indent, stdout);
	for (uint32_t i = 0; i < n; i++)
		fputs("+---------", stdout);
	puts("+");
}

/* Print a line of cells, each "rank@row". */
static void cells(const struct whole *mesh, uint32_t first, uint32_t n)
{
	for (uint32_t rank = first; rank < first + n; rank++)
		printf("| %3u@%-3u ", rank, mesh->rows[rank]);
	puts("|");
}

/* Print parts side by side, stages below each other, and a box for each
 * replica. */
static void boxes(const struct whole *mesh, uint32_t n_boxes)
{
	static const char indent[] = "            ";
	const struct gpumap_mesh *head = &mesh->head;

	for (uint32_t d = 0; d < n_boxes; d++) {
		printf("  replica %u\n", d);
		border(head->tp, indent);
		for (uint32_t p = 0; p < head->pp; p++) {
			printf("  stage %-4u", p);
			cells(mesh, (d * head->pp + p) * head->tp, head->tp);
			border(head->tp, indent);
		}
	}
}

/* Print replicas side by side, eight on a line. */
static void line(const struct whole *mesh)
{
	static const char indent[] = "  ";

	for (uint32_t first = 0; first < mesh->head.world; first += 8) {
		uint32_t left = mesh->head.world - first;
		uint32_t n = left < 8 ? left : 8;

		border(n, indent);
		fputs(indent, stdout);
		cells(mesh, first, n);
		border(n, indent);
	}
}

static void picture(const struct whole *mesh)
{
	const struct gpumap_mesh *head = &mesh->head;
	struct gpumap_mesh_place at;
	bool any = false;

	puts("  rank@row");
	if (head->topology == GPUMAP_MESH_DATA)
		line(mesh);
	else if (head->topology == GPUMAP_MESH_TENSOR)
		boxes(mesh, head->world / head->tp);
	else
		boxes(mesh, head->dp);
	for (uint32_t rank = 0; rank < head->world; rank++) {
		if (gpumap_mesh_place(head, rank, &at) != -ENODATA)
			continue;
		printf("%s %u@%u", any ? "" : "  left over:", rank,
		       mesh->rows[rank]);
		any = true;
	}
	if (any)
		putchar('\n');
}

/* ---- the table ----------------------------------------------------------- */

/* Print ranks: "0-3,8". */
static void put_ranks(const uint32_t *ranks, uint32_t n)
{
	uint32_t step = 0;

	for (uint32_t i = 0; i < n; i += step) {
		step = 1;
		while (i + step < n && ranks[i + step] == ranks[i] + step)
			step++;
		printf("%s%u", i == 0 ? "" : ",", ranks[i]);
		if (step > 1)
			printf("-%u", ranks[i + step - 1]);
	}
	putchar('\n');
}

static void show_table(const struct whole *mesh)
{
	const struct gpumap_mesh *head = &mesh->head;
	char topology[GM_MESH_TEXT], size[32];

	printf("%s  version %llu, %s over %u rank%s, %u ready, %s\n",
	       head->name, (unsigned long long)head->version,
	       gm_ctl_topology(head, topology), head->world,
	       gm_ctl_s(head->world), mesh->stats.n_ready,
	       gm_size_text(mesh->stats.total_bytes, size));
	picture(mesh);
	printf("  %-24s %-7s %-6s ranks\n", "group", "backend", "state");
	for (uint32_t i = 0; i < head->n_groups; i++) {
		printf("  %-24s %-7s %-6s ", mesh->groups[i].name,
		       backend_of(&mesh->groups[i]),
		       mesh->groups[i].whole ? "whole" : "broken");
		put_ranks(mesh->ranks[i], mesh->groups[i].n);
	}
	puts("  collectives run in each group, world included: backends are "
	     "kapsl's names");
}

int gm_ctl_mesh_show(struct gm_ctl *ctl)
{
	const char *name = ctl->args[0];
	struct whole mesh;
	int ret = read_mesh(ctl, name, &mesh);

	if (ret == -ENOENT)
		return gm_ctl_unknown("mesh", name, "mesh list");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "mesh \"%s\"", name);
	ret = GM_EXIT_OK;
	if (ctl->json)
		ret = show_json(&mesh);
	else
		show_table(&mesh);
	forget(&mesh);
	return ret;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Publish, list, show and release meshes; show draws a picture of the ranks. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/fields.h"
#include "agent/ctl/parse.h"
#include "agent/mesh/mesh.h"

/* Print the topology of a published mesh: "mixed=2x2x2". */
static const char *topology_text(const struct gpumap_mesh *mesh,
				 char ret_text[GM_MESH_TEXT])
{
	const struct gm_mesh_shape shape = { mesh->topology, mesh->tp, mesh->pp,
					     mesh->dp };

	if (mesh->topology >= GPUMAP_MESH_DATA &&
	    mesh->topology <= GPUMAP_MESH_MIXED)
		return gm_mesh_print(&shape, ret_text);
	return strcpy(ret_text, "?");
}

static void topology(const struct gm_ctl *ctl, const void *mesh,
		     char ret_text[GM_CTL_CELL])
{
	topology_text(mesh, ret_text);
}

#define MESH(name, member, ...) GM_FIELD(gpumap_mesh, name, member, __VA_ARGS__)

static const struct gm_ctl_field mesh_fields[] = {
	MESH("name", name, GM_COLUMN("name", -24)),
	MESH("version", version, GM_COLUMN("version", 8)),
	GM_MEMBERS(gpumap_mesh, published_ns, owner_uid),
	MESH("topology", topology, GM_COLUMN("topology", -16),
	     .text = topology),
	MESH("world_size", world, GM_COLUMN("ranks", 5)),
	MESH("expected_world_size", expected),
	GM_MEMBERS(gpumap_mesh, tp, pp, dp),
	MESH("n_groups", n_groups, GM_COLUMN("groups", 6)),
	MESH(NULL, owner_uid, GM_COLUMN("uid", 6)),
	{ 0 },
};

/* ---- list ---------------------------------------------------------------- */

static int read_head(const struct gm_ctl *ctl, const char *name, void *ret_mesh)
{
	struct gpumap_mesh *mesh = ret_mesh;

	mesh->size = sizeof(*mesh);
	return gpumap_mesh_read(ctl->map, name, mesh, NULL, 0);
}

void gm_ctl_mesh_list(struct gm_ctl *ctl)
{
	static const struct gm_ctl_named meshes = {
		"mesh", "meshes", mesh_fields, gpumap_mesh_next, read_head
	};
	struct gpumap_mesh mesh;

	gm_ctl_list_named(ctl, &meshes, &mesh);
}

/* ---- publish ------------------------------------------------------------- */

/* Groups of the command line. */
struct groups {
	struct gpumap_mesh_added of[GM_CTL_GROUPS];
	char names[GM_CTL_GROUPS][GPUMAP_NAME_MAX + 1];
	uint32_t ranks[GM_CTL_GROUPS][GPUMAP_ROWS_MAX];
};

static _Noreturn void no_group(void)
{
	gm_ctl_wrong("mesh publish: --group is NAME=RANKS, such as left=0,1; "
		     "see gpumapctl --help");
}

/* Read "NAME=0,2,3".  The agent checks that each rank exists and occurs only
 * once. */
static void read_group(struct groups *groups, uint32_t i, const char *text)
{
	struct gpumap_mesh_added *to = &groups->of[i];
	size_t n = strcspn(text, "=");

	if (text[n] != '=' || n == 0 || n > GPUMAP_NAME_MAX)
		no_group();
	memcpy(groups->names[i], text, n);
	to->name = groups->names[i];
	to->backend = GPUMAP_MESH_GLOO;
	to->ranks = groups->ranks[i];
	do {
		char digits[12];
		uint64_t rank;

		text += n + 1;
		n = strcspn(text, ",");
		snprintf(digits, sizeof(digits), "%.*s", (int)n, text);
		if (n >= sizeof(digits) || to->n == GPUMAP_ROWS_MAX ||
		    gm_parse_number(digits, &rank) != 0 || rank >= UINT32_MAX)
			no_group();
		groups->ranks[i][to->n++] = (uint32_t)rank;
	} while (text[n] != '\0');
}

static void published(const struct gm_ctl *ctl, const char *name)
{
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	int ret = gpumap_mesh_read(ctl->map, name, &mesh, NULL, 0);
	char topology[GM_MESH_TEXT];

	if (ret != 0)
		gm_ctl_fail(ctl, ret, "mesh \"%s\"", name);
	if (ctl->json)
		gm_ctl_print(gm_ctl_fields_json(ctl, mesh_fields, &mesh, NULL));
	else
		printf("%s: version %llu, %s over %u rank%s, %u group%s\n",
		       name, (unsigned long long)mesh.version,
		       topology_text(&mesh, topology), mesh.world,
		       gm_ctl_s(mesh.world), mesh.n_groups,
		       gm_ctl_s(mesh.n_groups));
}

void gm_ctl_mesh_publish(struct gm_ctl *ctl)
{
	struct groups *groups = gm_ctl_alloc(1, sizeof(*groups));
	struct gpumap_mesh_request request = { .size = sizeof(request),
					       .name = ctl->args[0],
					       .rows = ctl->rows,
					       .n_rows = ctl->n_rows,
					       .added = groups->of,
					       .n_added = ctl->n_groups };
	struct gm_plan_error error;
	struct gm_mesh_shape shape;
	int ret;

	if (GM_TEXT(ctl, TOPOLOGY) == NULL)
		gm_ctl_wrong("mesh publish needs --topology; see gpumapctl "
			     "--help");
	for (uint32_t i = 0; i < ctl->n_groups; i++)
		read_group(groups, i, ctl->groups[i]);
	if (gm_mesh_parse(GM_TEXT(ctl, TOPOLOGY), &shape, &error) != 0)
		gm_ctl_wrong("%s; %s", error.text, error.remedy);
	request.topology = shape.kind;
	request.tp = shape.tp;
	request.pp = shape.pp;
	request.dp = shape.dp;
	ret = gpumap_mesh_publish(ctl->map, &request);
	free(groups);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "publish \"%s\"", ctl->args[0]);
	published(ctl, ctl->args[0]);
}

void gm_ctl_mesh_release(struct gm_ctl *ctl)
{
	gm_ctl_released(ctl, gpumap_mesh_release(ctl->map, ctl->args[0]),
			"mesh", "mesh list");
}

/* ---- show ---------------------------------------------------------------- */

struct rank {
	uint32_t rank;
	uint32_t row;
	struct gpumap_mesh_place at;
	uint32_t is_placed; /* 0: the topology does not need it */
};

struct group {
	struct gpumap_mesh_group of;
	uint32_t ranks[GPUMAP_ROWS_MAX];
	uint32_t rows[GPUMAP_ROWS_MAX];
};

/* A whole mesh in private memory, of one version. */
struct whole {
	struct gpumap_mesh head;
	struct gpumap_mesh_stats stats;
	uint32_t rows[GPUMAP_ROWS_MAX];
	struct rank ranks[GPUMAP_ROWS_MAX]; /* head.world */
	struct group *groups;               /* head.n_groups */
};

/* Read the whole mesh; retry if it is published again between the calls. */
static void read_mesh(const struct gm_ctl *ctl, const char *name,
		      struct whole *mesh)
{
	uint32_t cursor;
	int ret;

	do {
		cursor = 0;
		free(mesh->groups);
		mesh->groups = NULL;
		mesh->head.size = sizeof(mesh->head);
		mesh->stats.size = sizeof(mesh->stats);
		ret = gpumap_mesh_read(ctl->map, name, &mesh->head, mesh->rows,
				       GPUMAP_ROWS_MAX);
		if (ret == 0)
			ret = gpumap_mesh_stats(ctl->map, name, &mesh->stats);
		if (ret != 0)
			break;
		mesh->groups = gm_ctl_alloc(mesh->head.n_groups,
					    sizeof(*mesh->groups));
		for (uint32_t i = 0; ret == 0 && i < mesh->head.n_groups; i++) {
			struct group *g = &mesh->groups[i];

			g->of.size = sizeof(g->of);
			ret = gpumap_mesh_next_group(ctl->map, name,
						     GPUMAP_MESH_ANY, &cursor,
						     &g->of);
			if (ret == 1)
				ret = gpumap_mesh_group(ctl->map, name,
							g->of.name, &g->of,
							g->ranks, g->rows,
							GPUMAP_ROWS_MAX);
			else if (ret == 0)
				ret = -EAGAIN;
			if (ret == 0 && g->of.version != mesh->head.version)
				ret = -EAGAIN;
		}
	} while (ret == -EAGAIN);
	if (ret == -ENOENT)
		gm_ctl_unknown("mesh", name, "mesh list");
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "mesh \"%s\"", name);
	for (uint32_t i = 0; i < mesh->head.world; i++) {
		struct rank *rank = &mesh->ranks[i];

		*rank = (struct rank){ .rank = i, .row = mesh->rows[i] };
		rank->is_placed =
			gpumap_mesh_place(&mesh->head, i, &rank->at) == 0;
	}
}

static const char *backend_name(uint32_t backend)
{
	return backend >= GPUMAP_MESH_MOCK && backend <= GPUMAP_MESH_MPI
		       ? gm_mesh_backend_name(backend)
		       : "?";
}

static const char *group_state(uint32_t whole)
{
	return whole != 0 ? "whole" : "broken";
}

/* "0-3,8". */
static void ranks_text(const struct gm_ctl *ctl, const void *group,
		       char ret_text[GM_CTL_CELL])
{
	const struct group *g = group;
	uint32_t step;

	for (uint32_t i = 0; i < g->of.n; i += step) {
		step = 1;
		while (i + step < g->of.n &&
		       g->ranks[i + step] == g->ranks[i] + step)
			step++;
		ret_text += sprintf(ret_text, "%s%u", i == 0 ? "" : ",",
				    g->ranks[i]);
		if (step > 1)
			ret_text += sprintf(ret_text, "-%u",
					    g->ranks[i + step - 1]);
	}
}

static const struct gm_ctl_field rank_fields[] = {
	GM_MEMBERS(rank, rank, row),
	GM_FIELD_KNOWN(rank, "tp", at.tp, is_placed, 1),
	GM_FIELD_KNOWN(rank, "pp", at.pp, is_placed, 1),
	GM_FIELD_KNOWN(rank, "dp", at.dp, is_placed, 1),
	{ 0 },
};

static const struct gm_ctl_field group_fields[] = {
	GM_FIELD(group, "name", of.name, GM_COLUMN("  group", -24)),
	GM_FIELD(group, "backend", of.backend, GM_COLUMN("backend", -7),
		 .word = backend_name),
	GM_FIELD(group, NULL, of.whole, GM_COLUMN("state", -6),
		 .word = group_state),
	GM_FIELD(group, "epoch", of.epoch),
	GM_FIELD(group, "whole", of.whole, GM_SET(1)),
	GM_FIELD_LIST(group, "ranks", ranks, of.n, GM_COLUMN("ranks", 0),
		      .text = ranks_text),
	GM_FIELD_LIST(group, "rows", rows, of.n),
	{ 0 },
};

static const struct gm_ctl_field stats_fields[] = {
	GM_MEMBERS(gpumap_mesh_stats, total_bytes, units, n_cards, n_host,
		   n_dummy, n_ready),
	{ 0 },
};

static const struct gm_ctl_field whole_fields[] = {
	GM_FIELD_ITEMS(whole, "ranks", ranks, head.world, rank_fields),
	GM_FIELD_ITEMS(whole, "groups", groups, head.n_groups, group_fields),
	GM_FIELD_RECORD(whole, "stats", stats, stats_fields),
	{ 0 },
};

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
	bool any = false;

	puts("  rank@row");
	if (head->topology == GPUMAP_MESH_DATA)
		line(mesh);
	else if (head->topology == GPUMAP_MESH_TENSOR)
		boxes(mesh, head->world / head->tp);
	else
		boxes(mesh, head->dp);
	for (uint32_t rank = 0; rank < head->world; rank++) {
		if (mesh->ranks[rank].is_placed != 0)
			continue;
		printf("%s %u@%u", any ? "" : "  left over:", rank,
		       mesh->rows[rank]);
		any = true;
	}
	if (any)
		putchar('\n');
}

void gm_ctl_mesh_show(struct gm_ctl *ctl)
{
	struct whole mesh = { .groups = NULL };
	const struct gpumap_mesh *head = &mesh.head;
	char topology[GM_MESH_TEXT], size[32];

	read_mesh(ctl, ctl->args[0], &mesh);
	if (ctl->json) {
		gm_ctl_print(gm_ctl_fields_json(
			ctl, whole_fields, &mesh,
			gm_ctl_fields_json(ctl, mesh_fields, head, NULL)));
		free(mesh.groups);
		return;
	}
	printf("%s  version %llu, %s over %u rank%s, %u ready, %s\n",
	       head->name, (unsigned long long)head->version,
	       topology_text(head, topology), head->world,
	       gm_ctl_s(head->world), mesh.stats.n_ready,
	       gm_size_text(mesh.stats.total_bytes, size));
	picture(&mesh);
	gm_ctl_fields_line(ctl, group_fields, NULL);
	for (uint32_t i = 0; i < head->n_groups; i++)
		gm_ctl_fields_line(ctl, group_fields, &mesh.groups[i]);
	puts("  collectives run in each group, world included: backends are "
	     "kapsl's names");
	free(mesh.groups);
}

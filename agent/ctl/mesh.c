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

static int wrong(const char *why)
{
	return gm_ctl_wrong("%s; see gpumapctl --help", why);
}

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

int gm_ctl_mesh_list(struct gm_ctl *ctl)
{
	static const struct gm_ctl_named meshes = {
		"mesh", "meshes", mesh_fields, gpumap_mesh_next, read_head
	};
	struct gpumap_mesh mesh;

	return gm_ctl_list_named(ctl, &meshes, &mesh);
}

/* ---- publish ------------------------------------------------------------- */

/* Groups of the command line. */
struct groups {
	struct gpumap_mesh_added of[GM_CTL_GROUPS];
	char names[GM_CTL_GROUPS][GPUMAP_NAME_MAX + 1];
	uint32_t ranks[GM_CTL_GROUPS][GPUMAP_ROWS_MAX];
};

/* Parse "0,2,3".  The agent checks that each rank exists and occurs only
 * once. */
static int read_ranks(const char *text, struct gpumap_mesh_added *to,
		      uint32_t ranks[GPUMAP_ROWS_MAX])
{
	to->ranks = ranks;
	while (to->n < GPUMAP_ROWS_MAX) {
		size_t n = strcspn(text, ",");
		char digits[12];
		uint64_t rank;

		if (n >= sizeof(digits))
			return -EINVAL;
		memcpy(digits, text, n);
		digits[n] = '\0';
		if (gm_parse_number(digits, &rank) != 0 || rank >= UINT32_MAX)
			return -EINVAL;
		ranks[to->n++] = (uint32_t)rank;
		if (text[n] == '\0')
			return 0;
		text += n + 1;
	}
	return -E2BIG;
}

static int read_groups(const struct gm_ctl *ctl, struct groups *groups)
{
	for (uint32_t i = 0; i < ctl->n_groups; i++) {
		const char *text = ctl->groups[i];
		size_t n = strcspn(text, "=");
		struct gpumap_mesh_added *to = &groups->of[i];

		if (text[n] != '=' || n == 0 || n > GPUMAP_NAME_MAX ||
		    read_ranks(text + n + 1, to, groups->ranks[i]) != 0)
			return -EINVAL;
		memcpy(groups->names[i], text, n);
		to->name = groups->names[i];
		to->backend = GPUMAP_MESH_GLOO;
	}
	return 0;
}

static int published(const struct gm_ctl *ctl, const char *name)
{
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	int ret = gpumap_mesh_read(ctl->map, name, &mesh, NULL, 0);
	char topology[GM_MESH_TEXT];

	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "mesh \"%s\"", name);
	if (ctl->json)
		return gm_ctl_print(
			gm_ctl_fields_json(ctl, mesh_fields, &mesh, NULL));
	printf("%s: version %llu, %s over %u rank%s, %u group%s\n", name,
	       (unsigned long long)mesh.version, topology_text(&mesh, topology),
	       mesh.world, gm_ctl_s(mesh.world), mesh.n_groups,
	       gm_ctl_s(mesh.n_groups));
	return GM_EXIT_OK;
}

int gm_ctl_mesh_publish(struct gm_ctl *ctl)
{
	struct groups *groups;
	struct gm_plan_error error;
	struct gm_mesh_shape shape;
	struct gpumap_mesh_request request;
	int ret;

	if (GM_TEXT(ctl, TOPOLOGY) == NULL)
		return wrong("mesh publish needs --topology");
	groups = calloc(1, sizeof(*groups));
	if (groups == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "mesh");
	if (read_groups(ctl, groups) != 0) {
		free(groups);
		return wrong("mesh publish: --group is NAME=RANKS, such as "
			     "left=0,1");
	}
	if (gm_mesh_parse(GM_TEXT(ctl, TOPOLOGY), &shape, &error) != 0) {
		gm_ctl_say("%s; %s", error.text, error.remedy);
		free(groups);
		return GM_EXIT_USAGE;
	}
	request = (struct gpumap_mesh_request){
		.size = sizeof(request),
		.name = ctl->args[0],
		.topology = shape.kind,
		.tp = shape.tp,
		.pp = shape.pp,
		.dp = shape.dp,
		.rows = ctl->rows,
		.n_rows = ctl->n_rows,
		.added = groups->of,
		.n_added = ctl->n_groups,
	};
	ret = gpumap_mesh_publish(ctl->map, &request);
	free(groups);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "publish \"%s\"", ctl->args[0]);
	return published(ctl, ctl->args[0]);
}

int gm_ctl_mesh_release(struct gm_ctl *ctl)
{
	return gm_ctl_released(ctl, gpumap_mesh_release(ctl->map, ctl->args[0]),
			       "mesh", "mesh list");
}

/* ---- show ---------------------------------------------------------------- */

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

static int read_all_groups(const struct gm_ctl *ctl, const char *name,
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
			      ? read_all_groups(ctl, name, &mesh)
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

	if (gpumap_mesh_place(&mesh->head, rank, &at) == 0)
		return json_pack("{s:i, s:i, s:i, s:i, s:i}", "rank", rank,
				 "row", mesh->rows[rank], "tp", at.tp, "pp",
				 at.pp, "dp", at.dp);
	return json_pack("{s:i, s:i, s:n, s:n, s:n}", "rank", rank, "row",
			 mesh->rows[rank], "tp", "pp", "dp");
}

static json_t *group_json(const struct whole *mesh, uint32_t i)
{
	const struct gpumap_mesh_group *group = &mesh->groups[i];
	json_t *rows = json_array();

	for (uint32_t k = 0; k < group->n; k++)
		json_array_append_new(
			rows, json_integer(mesh->rows[mesh->ranks[i][k]]));
	return json_pack("{s:s, s:s, s:I, s:b, s:o, s:o}", "name", group->name,
			 "backend", backend_of(group), "epoch",
			 (json_int_t)group->epoch, "whole", (int)group->whole,
			 "ranks", gm_ctl_list_json(mesh->ranks[i], group->n),
			 "rows", rows);
}

static const struct gm_ctl_field stats_fields[] = {
	GM_MEMBERS(gpumap_mesh_stats, total_bytes, units, n_cards, n_host,
		   n_dummy, n_ready),
	{ 0 },
};

static int show_json(const struct gm_ctl *ctl, const struct whole *mesh)
{
	json_t *object =
		       gm_ctl_fields_json(ctl, mesh_fields, &mesh->head, NULL),
	       *ranks = json_array(), *groups = json_array();

	for (uint32_t rank = 0; rank < mesh->head.world; rank++)
		json_array_append_new(ranks, rank_json(mesh, rank));
	for (uint32_t i = 0; i < mesh->head.n_groups; i++)
		json_array_append_new(groups, group_json(mesh, i));
	json_object_set_new(object, "ranks", ranks);
	json_object_set_new(object, "groups", groups);
	json_object_set_new(object, "stats",
			    gm_ctl_fields_json(ctl, stats_fields, &mesh->stats,
					       NULL));
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
	       topology_text(head, topology), head->world,
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
	if (ctl->json)
		ret = show_json(ctl, &mesh);
	else
		show_table(&mesh);
	forget(&mesh);
	return ret;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Publish, list, show and release meshes. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/mesh.h"
#include "agent/ctl/parse.h"
#include "agent/mesh/mesh.h"

static int wrong(const char *why)
{
	fprintf(stderr, "gpumapctl: %s; see gpumapctl --help\n", why);
	return GM_EXIT_USAGE;
}

/* Print the topology of a published mesh: "mixed=2x2x2". */
const char *gm_ctl_topology(const struct gpumap_mesh *mesh,
			    char ret_text[GM_MESH_TEXT])
{
	const struct gm_mesh_shape shape = { mesh->topology, mesh->tp, mesh->pp,
					     mesh->dp };

	return mesh->topology >= GPUMAP_MESH_DATA &&
			       mesh->topology <= GPUMAP_MESH_MIXED
		       ? gm_mesh_print(&shape, ret_text)
		       : "?";
}

json_t *gm_ctl_mesh_head(const struct gpumap_mesh *mesh)
{
	char topology[GM_MESH_TEXT];

	return json_pack(
		"{s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I}",
		"name", mesh->name, "version", (json_int_t)mesh->version,
		"published_ns", (json_int_t)mesh->published_ns, "owner_uid",
		(json_int_t)mesh->owner_uid, "topology",
		gm_ctl_topology(mesh, topology), "world_size",
		(json_int_t)mesh->world, "expected_world_size",
		(json_int_t)mesh->expected, "tp", (json_int_t)mesh->tp, "pp",
		(json_int_t)mesh->pp, "dp", (json_int_t)mesh->dp, "n_groups",
		(json_int_t)mesh->n_groups);
}

/* ---- list ---------------------------------------------------------------- */

int gm_ctl_mesh_list(struct gm_ctl *ctl)
{
	json_t *meshes = ctl->json ? json_array() : NULL;
	char name[GPUMAP_NAME_MAX + 1], topology[GM_MESH_TEXT];
	uint32_t cursor = 0;

	if (!ctl->json)
		printf("%-24s %8s %-16s %5s %6s %6s\n", "name", "version",
		       "topology", "ranks", "groups", "uid");
	while (gpumap_mesh_next(ctl->map, &cursor, name) == 1) {
		struct gpumap_mesh mesh = { .size = sizeof(mesh) };
		int ret = gpumap_mesh_read(ctl->map, name, &mesh, NULL, 0);

		if (ret == -ENOENT)
			continue; /* released meanwhile */
		if (ret != 0) {
			json_decref(meshes);
			return gm_ctl_fail(ctl, ret, "mesh \"%s\"", name);
		}
		if (ctl->json)
			json_array_append_new(meshes, gm_ctl_mesh_head(&mesh));
		else
			printf("%-24s %8llu %-16s %5u %6u %6u\n", mesh.name,
			       (unsigned long long)mesh.version,
			       gm_ctl_topology(&mesh, topology), mesh.world,
			       mesh.n_groups, mesh.owner_uid);
	}
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:o}", "meshes", meshes));
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
		return gm_ctl_print(gm_ctl_mesh_head(&mesh));
	printf("%s: version %llu, %s over %u rank%s, %u group%s\n", name,
	       (unsigned long long)mesh.version,
	       gm_ctl_topology(&mesh, topology), mesh.world,
	       gm_ctl_s(mesh.world), mesh.n_groups, gm_ctl_s(mesh.n_groups));
	return GM_EXIT_OK;
}

int gm_ctl_mesh_publish(struct gm_ctl *ctl)
{
	struct groups *groups;
	struct gm_plan_error error;
	struct gm_mesh_shape shape;
	struct gpumap_mesh_request request;
	int ret;

	if (ctl->plan.topology == NULL)
		return wrong("mesh publish needs --topology");
	groups = calloc(1, sizeof(*groups));
	if (groups == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "mesh");
	if (read_groups(ctl, groups) != 0) {
		free(groups);
		return wrong("mesh publish: --group is NAME=RANKS, such as "
			     "left=0,1");
	}
	if (gm_mesh_parse(ctl->plan.topology, &shape, &error) != 0) {
		fprintf(stderr, "gpumapctl: %s; %s\n", error.text,
			error.remedy);
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
	int ret = gpumap_mesh_release(ctl->map, ctl->args[0]);

	if (ret == -ENOENT)
		return gm_ctl_unknown("mesh", ctl->args[0], "mesh list");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "release \"%s\"", ctl->args[0]);
	if (ctl->json)
		return gm_ctl_print(
			json_pack("{s:s}", "released", ctl->args[0]));
	printf("%s: released\n", ctl->args[0]);
	return GM_EXIT_OK;
}

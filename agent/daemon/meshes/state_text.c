/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/state_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/name.h"
#include "agent/daemon/state/field.h"

void gm_mesh_text_name(const char *name, char ret_name[GM_STATE_NAME_BYTES])
{
	gm_state_text_escape(name, ret_name);
	strcat(ret_name, GM_STATE_MESH_SUFFIX);
}

/* ---- writing ----------------------------------------------------------- */

static void put_groups(FILE *to, const struct gm_meshes *mesh)
{
	uint32_t first = mesh->n_groups - mesh->n_added;

	fputs("\"groups\":[", to);
	for (uint32_t i = first; i < mesh->n_groups; i++) {
		const struct gm_meshes_group *group = &mesh->groups[i];

		fprintf(to, "%s\n{", i == first ? "" : ",");
		gm_state_text_put(to, "name", group->name);
		fprintf(to, "\"backend\":%u,\"ranks\":[", group->backend);
		for (uint32_t k = 0; k < group->n; k++)
			fprintf(to, "%s%u", k == 0 ? "" : ",", group->ranks[k]);
		fputs("]}", to);
	}
	fputs("]\n", to);
}

int gm_mesh_text_make(const struct gm_meshes *mesh, uint64_t version,
		      uint64_t published, const uint8_t (*uuids)[16],
		      char **ret_text, size_t *ret_bytes)
{
	const struct gm_mesh_shape shape = { mesh->topology, mesh->tp, mesh->pp,
					     mesh->dp };
	char *body = NULL, topology[GM_MESH_TEXT];
	size_t bytes = 0;
	FILE *to = open_memstream(&body, &bytes);

	if (to == NULL)
		return -ENOMEM;
	fputs("{\n", to);
	gm_state_text_put(to, "object", "mesh");
	gm_state_text_put(to, "name", mesh->name);
	gm_state_text_put(to, "topology", gm_mesh_print(&shape, topology));
	fprintf(to,
		"\"owner_uid\":%u,\n\"version\":%" PRIu64
		",\n\"published\":%" PRIu64 ",\n\"rows\":[",
		mesh->owner_uid, version, published);
	for (uint32_t i = 0; i < mesh->world; i++) {
		fputs(i == 0 ? "\n" : ",\n", to);
		gm_state_text_put_uuid(to, uuids[i]);
	}
	fputs("],\n", to);
	put_groups(to, mesh);
	fputs("}\n", to);
	return gm_state_text_frame(to, &body, &bytes, ret_text, ret_bytes);
}

/* ---- reading ----------------------------------------------------------- */

/* All that a mesh points to. */
struct room {
	char name[GM_NAME_BYTES];
	uint8_t uuids[GM_ROWS][16];
	uint32_t rows[GM_ROWS];
	struct gm_meshes_group groups[GM_MESH_ADDED];
	char names[GM_MESH_ADDED][GM_NAME_BYTES];
	uint32_t ranks[GM_MESH_ADDED][GM_ROWS];
};

static void read_rows(struct gm_fields *f, struct gm_mesh_file *mesh,
		      struct room *room)
{
	mesh->ask.n_rows = gm_state_field_rows(f, "rows");
	gm_state_field_uuids(f, "rows", room->uuids);
	mesh->ask.rows = room->rows;
	mesh->uuids = room->uuids;
}

static void read_group(struct gm_fields *f, struct gm_meshes_group *group,
		       char *name, uint32_t *ranks)
{
	const json_t *list = gm_json_field_list(f, "ranks");
	size_t n = json_array_size(list);
	uint64_t backend = gm_json_field_number(f, "backend");

	gm_state_field_name(f, "name", name);
	if (n > GM_ROWS)
		gm_json_field_refuse(f, "ranks", "has too many");
	if (backend < GPUMAP_MESH_MOCK || backend > GPUMAP_MESH_MPI)
		gm_json_field_refuse(f, "backend", "is none");
	for (size_t i = 0; i < n && f->r == 0; i++) {
		const json_t *rank = json_array_get(list, i);
		json_int_t number = json_integer_value(rank);

		if (!json_is_integer(rank) || number < 0 || number >= GM_ROWS)
			gm_json_field_refuse(f, "ranks", "has what is none");
		ranks[i] = (uint32_t)number;
	}
	*group = (struct gm_meshes_group){ name, (uint32_t)backend, (uint32_t)n,
					   ranks };
}

static void read_groups(struct gm_fields *f, struct gm_mesh_file *mesh,
			struct room *room)
{
	const json_t *list = gm_json_field_list(f, "groups");
	size_t n = json_array_size(list);

	if (n > GM_MESH_ADDED)
		gm_json_field_refuse(f, "groups", "has too many");
	for (size_t i = 0; i < n && f->r == 0; i++) {
		struct gm_fields group = { json_array_get(list, i), "groups.",
					   f->err, 0 };

		read_group(&group, &room->groups[i], room->names[i],
			   room->ranks[i]);
		f->r = group.r;
	}
	mesh->ask.n_added = (uint32_t)n;
	mesh->ask.added = room->groups;
}

static void read_head(struct gm_fields *f, const char *file,
		      struct gm_mesh_file *mesh, struct room *room)
{
	const char *topology = gm_json_field_text(f, "topology");
	uint64_t uid = gm_json_field_number(f, "owner_uid");
	char want[GM_STATE_NAME_BYTES];

	gm_state_field_name(f, "name", room->name);
	mesh->ask.name = room->name;
	mesh->ask.uid = (uint32_t)uid;
	mesh->version = gm_json_field_number(f, "version");
	mesh->ask.published = gm_json_field_number(f, "published");
	if (f->r == 0)
		gm_mesh_text_name(room->name, want);
	if (f->r == 0 && strcmp(want, file) != 0)
		gm_json_field_refuse(f, "name", "is not its file's");
	if (uid > UINT32_MAX)
		gm_json_field_refuse(f, "owner_uid", "is too large");
	if (mesh->version == 0 || mesh->version >> (64 - GM_UNIT_BITS) != 0)
		gm_json_field_refuse(f, "version", "can be no mesh's");
	if (f->r == 0)
		f->r = gm_mesh_parse(topology, &mesh->ask.shape, f->err);
}

/* Does it make sense by itself, whatever its rows are?  Row numbers are the
 * ranks for now. */
static void check(struct gm_fields *f, struct gm_mesh_file *mesh,
		  struct room *room)
{
	struct gm_arranged arranged;
	char why[GM_WHY_BYTES];
	int ret;

	for (uint32_t i = 0; i < mesh->ask.n_rows; i++)
		room->rows[i] = i;
	ret = gm_name_check(mesh->ask.name, why);
	if (ret == 0)
		ret = gm_arrange(&mesh->ask, why, &arranged);
	if (ret == 0)
		gm_arranged_free(&arranged);
	else
		f->r = gm_error_set(f->err, ret == -ENOMEM ? ret : -EPROTO,
				    NULL, "%s", why);
}

static void read_mesh(struct gm_fields *f, const char *file,
		      struct gm_mesh_file *mesh)
{
	struct room *room = calloc(1, sizeof(*room));

	if (room == NULL) {
		f->r = gm_error_no_memory(f->err);
		return;
	}
	mesh->memory = room;
	read_head(f, file, mesh, room);
	read_rows(f, mesh, room);
	read_groups(f, mesh, room);
	if (f->r == 0)
		check(f, mesh, room);
}

int gm_mesh_text_read(const char *file, const char *text, size_t bytes,
		      struct gm_mesh_file *ret_file, char ret_why[GM_WHY_BYTES])
{
	struct gm_state_reading reading;
	struct gm_mesh_file mesh = { .version = 0 };
	int ret = gm_state_reading_begin(&reading, text, bytes, ret_why);

	if (ret != 0)
		return ret;
	read_mesh(&reading.fields, file, &mesh);
	ret = gm_state_reading_end(&reading, ret_why);
	if (ret == 0)
		*ret_file = mesh;
	else
		gm_mesh_text_free(&mesh);
	return ret;
}

void gm_mesh_text_free(struct gm_mesh_file *file)
{
	free(file->memory);
	file->memory = NULL;
}

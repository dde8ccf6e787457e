/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Ranks in groups: 150 bytes of memory for each group, and the text.
 *
 * An answer may list a million runs: it is written as text directly, because a
 * tree of jansson's would take ten times the memory.  No name needs escaping.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/mesh/mesh.h"
#include "tests/answers/answers.h"

/* Runs of ranks that an answer may list, over all groups. */
#define RUNS_MAX (UINT64_C(1) << 20)

static void read_shape(struct gm_fields *f, struct gm_mesh_shape *shape)
{
	struct gm_fields t = answers_object(f, "topology");
	const char *kind;

	t.name = "topology: ";
	kind = gm_json_field_text(&t, "kind");
	*shape = (struct gm_mesh_shape){ GPUMAP_MESH_DATA, 1, 1, 1 };
	if (!kind) {
		; /* the error is set already */
	} else if (strcmp(kind, "tensor") == 0) {
		shape->kind = GPUMAP_MESH_TENSOR;
		shape->tp = gm_json_field_number(&t, "degree");
	} else if (strcmp(kind, "pipeline") == 0) {
		shape->kind = GPUMAP_MESH_PIPELINE;
		shape->pp = gm_json_field_number(&t, "stages");
	} else if (strcmp(kind, "mixed") == 0) {
		shape->kind = GPUMAP_MESH_MIXED;
		shape->tp = gm_json_field_number(&t, "tp");
		shape->pp = gm_json_field_number(&t, "pp");
		shape->dp = gm_json_field_number(&t, "dp");
	} else if (strcmp(kind, "data") != 0) {
		gm_json_field_refuse(&t, "kind",
				     "is not data, tensor, pipeline or mixed");
	}
	f->r = t.r;
}

/* The runs of a group: one if its ranks follow each other, else one for each
 * rank. */
static uint64_t runs_of(const struct gm_mesh_group *group)
{
	return group->stride == 1 && group->n > 0 ? 1 : group->n;
}

/* All groups of one kind have as many runs as the first of the kind. */
static bool is_too_long(const struct gm_mesh *mesh)
{
	const struct gm_mesh_shape *s = &mesh->shape;
	struct gm_mesh_group group;
	uint64_t runs;

	if (mesh->n_shaped > RUNS_MAX)
		return true;
	if (s->kind != GPUMAP_MESH_MIXED)
		return false;
	/* No product can overflow: the product of all factors is below 2^64. */
	gm_mesh_group(mesh, 1 + s->dp * s->pp, &group);
	runs = s->tp * s->pp * runs_of(&group);
	if (runs > RUNS_MAX)
		return true;
	gm_mesh_group(mesh, 1 + s->dp * s->pp + s->tp * s->pp, &group);
	runs += s->dp * s->tp * runs_of(&group);
	return runs + s->dp * s->pp + 1 > RUNS_MAX;
}

static int by_name(const void *a, const void *b)
{
	const struct gm_mesh_group *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void put_group(FILE *to, const struct gm_mesh_group *group)
{
	uint64_t n = runs_of(group), each = n == 1 ? group->n : 1;

	fprintf(to, "[\"%s\",\"%s\",[", group->name,
		gm_mesh_backend_name(group->backend));
	for (uint64_t i = 0; i < n; i++)
		fprintf(to, "%s[%" PRIu64 ",%" PRIu64 "]", i == 0 ? "" : ",",
			gm_mesh_rank(group, i), each);
	fputs("]]", to);
}

static void put_groups(FILE *to, const struct gm_mesh_group *groups, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		fputs(i == 0 ? "" : ",", to);
		put_group(to, &groups[i]);
	}
}

/* No group of a shape lists its ranks. */
static void put_membership(FILE *to, const struct gm_mesh_group *groups,
			   uint64_t n, uint64_t rank)
{
	const char *before = "";

	for (uint64_t i = 0; i < n; i++) {
		const struct gm_mesh_group *g = &groups[i];
		uint64_t from = rank - g->first;

		if (rank < g->first || from % g->stride != 0 ||
		    from / g->stride >= g->n)
			continue;
		fprintf(to, "%s[\"%s\",%" PRIu64 "]", before, g->name,
			from / g->stride);
		before = ",";
	}
}

static char *print(const struct gm_mesh *mesh,
		   const struct gm_mesh_group *groups, uint64_t rank)
{
	char *text = NULL;
	uint64_t expected = 0;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	bool good;

	if (!to)
		return NULL;
	gm_mesh_expected(&mesh->shape, &expected, NULL);
	fprintf(to, "{\"expected_world_size\":%" PRIu64 ",\"groups\":[",
		expected);
	put_groups(to, groups, mesh->n_shaped);
	fputs("],\"membership\":[", to);
	put_membership(to, groups, mesh->n_shaped, rank);
	fputs("]}", to);
	good = ferror(to) == 0;
	if (fclose(to) == 0 && good)
		return text;
	free(text);
	return NULL;
}

static char *answer(const struct gm_mesh *mesh, uint64_t rank)
{
	struct gm_mesh_group *groups =
		reallocarray(NULL, mesh->n_shaped, sizeof(*groups));
	char *text;

	if (!groups)
		return NULL;
	for (uint64_t i = 0; i < mesh->n_shaped; i++)
		gm_mesh_group(mesh, i, &groups[i]);
	qsort(groups, mesh->n_shaped, sizeof(*groups), by_name);
	text = print(mesh, groups, rank);
	free(groups);
	return text;
}

char *answers_mesh(struct gm_fields *f)
{
	uint64_t world = gm_json_field_number(f, "world_size");
	uint64_t rank = gm_json_field_number(f, "rank");
	struct gm_mesh_shape shape;
	struct gm_mesh mesh;

	if (f->r == 0)
		read_shape(f, &shape);
	if (f->r == 0)
		f->r = gm_mesh_make(&shape, world, &mesh, f->err);
	if (f->r)
		return NULL;
	if (rank >= world)
		f->r = gm_error_set(f->err, -EINVAL, "ranks start at 0",
				    "Rank %" PRIu64
				    " out of bounds for world size %" PRIu64,
				    rank, world);
	else if (is_too_long(&mesh))
		f->r = gm_error_set(f->err, -E2BIG, "give a smaller world",
				    "the answer would list more than %" PRIu64
				    " runs of ranks",
				    RUNS_MAX);
	return f->r ? NULL : answer(&mesh, rank);
}

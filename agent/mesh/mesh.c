/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/mesh/mesh.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/number.h"

/* ---- shapes -------------------------------------------------------------- */

static const char *const kinds[] = { "none", "data", "tensor", "pipeline",
				     "mixed" };

const char *gm_mesh_backend_name(uint32_t backend)
{
	static const char *const names[] = { "None", "Mock", "Nccl", "Gloo",
					     "MPI" };

	return names[backend];
}

/* @n numbers with 'x' between them, and nothing else. */
static bool read_factors(const char *text, uint64_t *ret_factors, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t digits = strspn(text, "0123456789");

		if (gm_number_parse(text, digits, &ret_factors[i]) ||
		    text[digits] != (i + 1 < n ? 'x' : '\0'))
			return false;
		text += digits + 1;
	}
	return true;
}

static bool read_shape(const char *text, struct gm_mesh_shape *ret_shape)
{
	struct gm_mesh_shape shape = { GPUMAP_MESH_DATA, 1, 1, 1 };
	size_t n = strcspn(text, "=");
	uint64_t factors[3];
	bool good = strcmp(text, "data") == 0;

	if (n == 6 && strncmp(text, "tensor=", 7) == 0) {
		shape.kind = GPUMAP_MESH_TENSOR;
		good = read_factors(text + n + 1, &shape.tp, 1);
	} else if (n == 8 && strncmp(text, "pipeline=", 9) == 0) {
		shape.kind = GPUMAP_MESH_PIPELINE;
		good = read_factors(text + n + 1, &shape.pp, 1);
	} else if (n == 5 && strncmp(text, "mixed=", 6) == 0) {
		good = read_factors(text + n + 1, factors, 3);
		if (good)
			shape = (struct gm_mesh_shape){ GPUMAP_MESH_MIXED,
							factors[0], factors[1],
							factors[2] };
	}
	*ret_shape = shape;
	return good;
}

int gm_mesh_parse(const char *text, struct gm_mesh_shape *ret_shape,
		  struct gm_plan_error *err)
{
	struct gm_mesh_shape shape;
	uint64_t world;
	int r;

	if (!read_shape(text, &shape))
		return gm_error_set(err, -EINVAL,
				    "give data, tensor=N, pipeline=N or "
				    "mixed=TPxPPxDP",
				    "\"%.64s\" is no topology", text);
	r = gm_mesh_expected(&shape, &world, err);
	if (r == 0)
		*ret_shape = shape;
	return r;
}

const char *gm_mesh_print(const struct gm_mesh_shape *shape,
			  char ret_text[GM_MESH_TEXT])
{
	const char *name = kinds[shape->kind];

	if (shape->kind == GPUMAP_MESH_MIXED)
		snprintf(ret_text, GM_MESH_TEXT,
			 "%s=%" PRIu64 "x%" PRIu64 "x%" PRIu64, name, shape->tp,
			 shape->pp, shape->dp);
	else if (shape->kind == GPUMAP_MESH_DATA)
		snprintf(ret_text, GM_MESH_TEXT, "%s", name);
	else
		snprintf(ret_text, GM_MESH_TEXT, "%s=%" PRIu64, name,
			 shape->tp * shape->pp);
	return ret_text;
}

static int refuse_zero(const struct gm_mesh_shape *shape,
		       struct gm_plan_error *err)
{
	static const char remedy[] = "give factors of 1 or more";

	if (shape->kind == GPUMAP_MESH_TENSOR && shape->tp == 0)
		return gm_error_set(err, -EINVAL, remedy,
				    "Tensor parallel degree 0 is no degree");
	if (shape->kind == GPUMAP_MESH_PIPELINE && shape->pp == 0)
		return gm_error_set(err, -EINVAL, remedy,
				    "Pipeline parallel of 0 stages is none");
	return gm_error_set(err, -EINVAL, remedy,
			    "%s of a %s mesh (TP=%" PRIu64 ", PP=%" PRIu64
			    ", DP=%" PRIu64 ") is 0",
			    shape->tp == 0   ? "TP"
			    : shape->pp == 0 ? "PP"
					     : "DP",
			    kinds[shape->kind], shape->tp, shape->pp,
			    shape->dp);
}

int gm_mesh_expected(const struct gm_mesh_shape *shape, uint64_t *ret_world,
		     struct gm_plan_error *err)
{
	uint64_t world;

	if (shape->tp == 0 || shape->pp == 0 || shape->dp == 0)
		return refuse_zero(shape, err);
	if (__builtin_mul_overflow(shape->tp, shape->pp, &world) ||
	    __builtin_mul_overflow(world, shape->dp, &world))
		return gm_error_set(err, -EOVERFLOW, "give smaller factors",
				    "Mixed parallelism (TP=%" PRIu64
				    ", PP=%" PRIu64 ", DP=%" PRIu64
				    ") requires 2^64 devices or more",
				    shape->tp, shape->pp, shape->dp);
	*ret_world = world;
	return 0;
}

/* Refuse a world that is too small, in kapsl's words. */
static int refuse_world(const struct gm_mesh_shape *shape, uint64_t expected,
			uint64_t world, struct gm_plan_error *err)
{
	static const char remedy[] = "give more rows, or smaller factors";

	if (shape->kind == GPUMAP_MESH_TENSOR)
		return gm_error_set(err, -EINVAL, remedy,
				    "Tensor parallel degree %" PRIu64
				    " requires at least %" PRIu64
				    " devices, got %" PRIu64,
				    expected, expected, world);
	if (shape->kind == GPUMAP_MESH_PIPELINE)
		return gm_error_set(err, -EINVAL, remedy,
				    "Pipeline parallel requires %" PRIu64
				    " stages, got %" PRIu64 " devices",
				    expected, world);
	return gm_error_set(err, -EINVAL, remedy,
			    "Mixed parallelism (TP=%" PRIu64 ", PP=%" PRIu64
			    ", DP=%" PRIu64 ") requires %" PRIu64
			    " devices, got %" PRIu64,
			    shape->tp, shape->pp, shape->dp, expected, world);
}

/* ---- meshes -------------------------------------------------------------- */

/* Count the shape's groups.  The sum of three counts, each at most 2^64 - 1,
 * may overflow: the world then has so many ranks that 64 bits are not enough to
 * number its groups. */
static int count_shaped(const struct gm_mesh_shape *shape, uint64_t world,
			uint64_t *ret_n, struct gm_plan_error *err)
{
	uint64_t n = 0;
	bool over = false;

	switch (shape->kind) {
	case GPUMAP_MESH_DATA:
		break;
	case GPUMAP_MESH_TENSOR:
		n = world / shape->tp;
		break;
	case GPUMAP_MESH_PIPELINE:
		n = shape->pp;
		break;
	case GPUMAP_MESH_MIXED:
		n = shape->dp * shape->pp;
		over = __builtin_add_overflow(n, shape->tp * shape->pp, &n);
		over |= __builtin_add_overflow(n, shape->dp * shape->tp, &n);
		break;
	}
	if (over || __builtin_add_overflow(n, 1, &n))
		return gm_error_set(err, -EOVERFLOW, "give a smaller world",
				    "a world of %" PRIu64
				    " devices has 2^64 groups or more",
				    world);
	*ret_n = n;
	return 0;
}

int gm_mesh_make(const struct gm_mesh_shape *shape, uint64_t world,
		 struct gm_mesh *ret_mesh, struct gm_plan_error *err)
{
	struct gm_mesh mesh = { .shape = *shape, .world = world };
	uint64_t expected;
	int r = gm_mesh_expected(shape, &expected, err);

	/* Any number of replicas is a data mesh, even none. */
	if (r == 0 && shape->kind != GPUMAP_MESH_DATA && world < expected)
		r = refuse_world(shape, expected, world, err);
	if (r == 0)
		r = count_shaped(shape, world, &mesh.n_shaped, err);
	if (r == 0)
		*ret_mesh = mesh;
	return r;
}

static void free_group(struct gm_mesh_group *group)
{
	free((void *)(uintptr_t)group->ranks);
}

void gm_mesh_free(struct gm_mesh *mesh)
{
	for (uint32_t i = 0; i < mesh->n_added; i++)
		free_group(&mesh->added[i]);
	free(mesh->added);
	*mesh = (struct gm_mesh){ .n_added = 0 };
}

static int refuse_taken(const struct gm_mesh *mesh, const char *name,
			struct gm_plan_error *err)
{
	return gm_error_set(err, -EEXIST, "choose another name",
			    "Group '%s' is one of a %s mesh's own", name,
			    kinds[mesh->shape.kind]);
}

/* ---- groups of a shape --------------------------------------------------- */

static struct gm_mesh_group sequence(uint32_t backend, uint64_t n,
				     uint64_t first, uint64_t stride)
{
	return (struct gm_mesh_group){
		.backend = backend, .n = n, .first = first, .stride = stride
	};
}

static void name(struct gm_mesh_group *group, const char *before, uint64_t a,
		 const char *between, uint64_t b)
{
	snprintf(group->name, sizeof(group->name), "%s%" PRIu64 "%s%" PRIu64,
		 before, a, between, b);
}

/* The three blocks follow each other: a tensor group for each (d, p), a data
 * group for each (t, p), a pipeline group for each (d, t). */
static void mixed_group(const struct gm_mesh_shape *s, uint64_t i,
			struct gm_mesh_group *ret)
{
	uint64_t a, b;

	if (i < s->dp * s->pp) {
		a = i / s->pp;
		b = i % s->pp;
		*ret = sequence(GPUMAP_MESH_NCCL, s->tp,
				(a * s->pp + b) * s->tp, 1);
		name(ret, "tp_dp", a, "_pp", b);
		return;
	}
	i -= s->dp * s->pp;
	if (i < s->tp * s->pp) {
		a = i / s->pp;
		b = i % s->pp;
		*ret = sequence(GPUMAP_MESH_NCCL, s->dp, b * s->tp + a,
				s->pp * s->tp);
		name(ret, "dp_tp", a, "_pp", b);
		return;
	}
	i -= s->tp * s->pp;
	a = i / s->tp;
	b = i % s->tp;
	*ret = sequence(GPUMAP_MESH_NCCL, s->pp, a * s->pp * s->tp + b, s->tp);
	name(ret, "pp_dp", a, "_tp", b);
}

void gm_mesh_group(const struct gm_mesh *mesh, uint64_t i,
		   struct gm_mesh_group *ret)
{
	const struct gm_mesh_shape *s = &mesh->shape;

	if (i == 0) {
		*ret = sequence(GPUMAP_MESH_MOCK, mesh->world, 0, 1);
		strcpy(ret->name, "world");
		return;
	}
	i--;
	if (s->kind == GPUMAP_MESH_TENSOR) {
		*ret = sequence(GPUMAP_MESH_NCCL, s->tp, i * s->tp, 1);
		snprintf(ret->name, sizeof(ret->name), "tp_%" PRIu64, i);
	} else if (s->kind == GPUMAP_MESH_PIPELINE) {
		*ret = sequence(GPUMAP_MESH_GLOO, 1, i, 1);
		snprintf(ret->name, sizeof(ret->name), "pp_stage_%" PRIu64, i);
	} else {
		mixed_group(s, i, ret);
	}
}

/* Read the numbers in a name; missing ones are 0. */
static void numbers_of(const char *text, uint64_t ret_numbers[2])
{
	ret_numbers[0] = 0;
	ret_numbers[1] = 0;
	for (int i = 0; i < 2; i++) {
		size_t n;

		text += strcspn(text, "0123456789");
		n = strspn(text, "0123456789");
		if (n == 0 || gm_number_parse(text, n, &ret_numbers[i]))
			return;
		text += n;
	}
}

/* The only group that can have this name, if any has.  Past n_shaped: none. */
static uint64_t guess(const struct gm_mesh *mesh, const char *text)
{
	const struct gm_mesh_shape *s = &mesh->shape;
	uint64_t first = 1, n[2], width = s->pp, height = s->dp;

	if (strcmp(text, "world") == 0)
		return 0;
	numbers_of(text, n);
	if (s->kind != GPUMAP_MESH_MIXED)
		return n[0] < mesh->n_shaped ? n[0] + 1 : mesh->n_shaped;
	if (text[0] == 'd') {
		first += s->dp * s->pp;
		height = s->tp;
	} else if (text[0] == 'p') {
		first += s->dp * s->pp + s->tp * s->pp;
		width = s->tp;
	}
	if (n[0] >= height || n[1] >= width)
		return mesh->n_shaped;
	return first + n[0] * width + n[1];
}

int gm_mesh_find(const struct gm_mesh *mesh, const char *text,
		 struct gm_mesh_group *ret_group)
{
	uint64_t i = guess(mesh, text);
	struct gm_mesh_group group;

	if (i < mesh->n_shaped) {
		gm_mesh_group(mesh, i, &group);
		if (strcmp(group.name, text) == 0) {
			*ret_group = group;
			return 0;
		}
	}
	for (uint32_t j = 0; j < mesh->n_added; j++) {
		if (strcmp(mesh->added[j].name, text) == 0) {
			*ret_group = mesh->added[j];
			return 0;
		}
	}
	return -ENOENT;
}

/* ---- added groups ------------------------------------------------------- */

static bool is_name(const char *text)
{
	size_t n = 0;

	for (; text[n] != '\0'; n++) {
		unsigned char c = (unsigned char)text[n];

		if (n + 1 == GM_MESH_GROUP_NAME || c <= ' ' || c >= 0x7f ||
		    c == ',' || c == '=' || c == '"' || c == '\\')
			return false;
	}
	return n > 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int check_ranks(const struct gm_mesh *mesh, const char *text,
		       const uint64_t *ranks, size_t n,
		       struct gm_plan_error *err)
{
	uint64_t *sorted;
	int r = 0;

	if (n == 0)
		return gm_error_set(err, -EINVAL, "give its ranks",
				    "Group '%s' has no ranks", text);
	for (size_t i = 0; i < n; i++) {
		if (ranks[i] >= mesh->world)
			return gm_error_set(err, -EINVAL,
					    "give ranks below the world size",
					    "Rank %" PRIu64 " out of bounds",
					    ranks[i]);
	}
	sorted = malloc(n * sizeof(*sorted));
	if (!sorted)
		return gm_error_no_memory(err);
	memcpy(sorted, ranks, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	for (size_t i = 1; r == 0 && i < n; i++) {
		if (sorted[i] == sorted[i - 1])
			r = gm_error_set(err, -EINVAL, "give each rank once",
					 "Group '%s' has rank %" PRIu64
					 " twice",
					 text, sorted[i]);
	}
	free(sorted);
	return r;
}

/* The place for a group: the one of its name, or a new one, zeroed. */
static struct gm_mesh_group *place_for(struct gm_mesh *mesh, const char *text)
{
	struct gm_mesh_group *added;

	for (uint32_t i = 0; i < mesh->n_added; i++) {
		if (strcmp(mesh->added[i].name, text) == 0)
			return &mesh->added[i];
	}
	added = reallocarray(mesh->added, mesh->n_added + 1, sizeof(*added));
	if (!added)
		return NULL;
	mesh->added = added;
	added += mesh->n_added++;
	memset(added, 0, sizeof(*added));
	return added;
}

int gm_mesh_add(struct gm_mesh *mesh, const char *text, uint32_t backend,
		const uint64_t *ranks, size_t n, struct gm_plan_error *err)
{
	const struct gm_mesh shaped = { mesh->shape, mesh->world,
					mesh->n_shaped, 0, NULL };
	struct gm_mesh_group group, *to;
	uint64_t *copy;
	int r;

	if (!is_name(text))
		return gm_error_set(err, -EINVAL,
				    "give 1 to 63 letters, digits or signs, "
				    "without blanks, ',' and '='",
				    "\"%.64s\" cannot be a group's name", text);
	if (gm_mesh_find(&shaped, text, &group) == 0)
		return refuse_taken(mesh, text, err);
	r = check_ranks(mesh, text, ranks, n, err);
	if (r)
		return r;
	copy = malloc(n * sizeof(*copy));
	to = copy ? place_for(mesh, text) : NULL;
	if (!to) {
		free(copy);
		return gm_error_no_memory(err);
	}
	memcpy(copy, ranks, n * sizeof(*copy));
	free_group(to);
	*to = (struct gm_mesh_group){ .backend = backend,
				      .n = n,
				      .ranks = copy };
	strcpy(to->name, text);
	return 0;
}

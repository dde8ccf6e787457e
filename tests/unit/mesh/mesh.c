/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mesh: every small mesh beside one that is made rank by rank, and the edges.
 *
 * The reference knows no sequences: it counts ranks up in the order of the
 * shape and appends each to the lists that its coordinates name.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/mesh/mesh.h"
#include "tests/support/tap.h"

#define MOST_GROUPS 256
#define MOST_RANKS  128

/* ---- the reference ------------------------------------------------------- */

struct list {
	char name[64];
	const char *backend;
	uint64_t ranks[MOST_RANKS];
	uint64_t n;
};

struct reference {
	struct list lists[MOST_GROUPS];
	int n;
};

/* "{before}{a}{between}{b}", or less where @between is "" or @before
 * "world". */
static void append(struct reference *r, const char *backend, uint64_t rank,
		   const char *before, uint64_t a, const char *between,
		   uint64_t b)
{
	char name[64];
	int n, i = 0;

	n = snprintf(name, sizeof(name), "%s", before);
	if (strcmp(before, "world") != 0)
		n += snprintf(name + n, sizeof(name) - n, "%d", (int)a);
	if (*between)
		snprintf(name + n, sizeof(name) - n, "%s%d", between, (int)b);
	while (i < r->n && strcmp(r->lists[i].name, name) != 0)
		i++;
	if (i == r->n) {
		r->n++;
		r->lists[i].n = 0;
		r->lists[i].backend = backend;
		strcpy(r->lists[i].name, name);
	}
	r->lists[i].ranks[r->lists[i].n++] = rank;
}

static void refer_mixed(struct reference *r, const struct gm_mesh_shape *s)
{
	uint64_t rank = 0;

	for (uint64_t d = 0; d < s->dp; d++) {
		for (uint64_t p = 0; p < s->pp; p++) {
			for (uint64_t t = 0; t < s->tp; t++, rank++) {
				append(r, "Nccl", rank, "tp_dp", d, "_pp", p);
				append(r, "Nccl", rank, "dp_tp", t, "_pp", p);
				append(r, "Nccl", rank, "pp_dp", d, "_tp", t);
			}
		}
	}
}

static void refer(struct reference *r, const struct gm_mesh_shape *s,
		  uint64_t world)
{
	uint64_t whole = world - world % s->tp;

	r->n = 0;
	for (uint64_t rank = 0; rank < world; rank++)
		append(r, "Mock", rank, "world", 0, "", 0);
	if (s->kind == GPUMAP_MESH_TENSOR)
		for (uint64_t rank = 0; rank < whole; rank++)
			append(r, "Nccl", rank, "tp_", rank / s->tp, "", 0);
	if (s->kind == GPUMAP_MESH_PIPELINE)
		for (uint64_t rank = 0; rank < s->pp; rank++)
			append(r, "Gloo", rank, "pp_stage_", rank, "", 0);
	if (s->kind == GPUMAP_MESH_MIXED)
		refer_mixed(r, s);
}

/* ---- beside it ----------------------------------------------------------- */

static int same_group(const struct gm_mesh_group *got, const struct list *want)
{
	if (strcmp(got->name, want->name) != 0 || got->n != want->n ||
	    strcmp(gm_mesh_backend_name(got->backend), want->backend) != 0)
		return 0;
	for (uint64_t i = 0; i < want->n; i++) {
		if (gm_mesh_rank(got, i) != want->ranks[i])
			return 0;
	}
	return 1;
}

/* Every group by name, and nothing beside them. */
static int same_groups(const struct gm_mesh *mesh, const struct reference *r)
{
	struct gm_mesh_group got, numbered;
	int good = mesh->n_shaped == (uint64_t)r->n;

	for (int i = 0; i < r->n; i++)
		good = good && !gm_mesh_find(mesh, r->lists[i].name, &got) &&
		       same_group(&got, &r->lists[i]);
	for (uint64_t i = 0; i < mesh->n_shaped; i++) {
		gm_mesh_group(mesh, i, &numbered);
		good = good && !gm_mesh_find(mesh, numbered.name, &got) &&
		       got.first == numbered.first && got.n == numbered.n;
	}
	return good;
}

static int n_compared;

/* How many are wrong: 0 or 1. */
static int compare(const struct gm_mesh_shape *s, uint64_t world)
{
	static struct reference r;
	struct gm_mesh mesh;

	n_compared++;
	refer(&r, s, world);
	if (gm_mesh_make(s, world, &mesh, NULL) == 0 && same_groups(&mesh, &r))
		return 0;
	NOTE("%d %d %d of %d", (int)s->tp, (int)s->pp, (int)s->dp, (int)world);
	return 1;
}

static int compare_mixed(void)
{
	int wrong = 0;

	for (uint64_t i = 0; i < 64; i++) {
		const struct gm_mesh_shape s = { GPUMAP_MESH_MIXED, i % 4 + 1,
						 i / 4 % 4 + 1, i / 16 + 1 };

		for (uint64_t more = 0; more < 3; more++)
			wrong += compare(&s, s.tp * s.pp * s.dp + more);
	}
	return wrong;
}

static void small_meshes_are_as_made_by_hand(void)
{
	int wrong = 0;

	for (uint64_t world = 1; world < 14; world++) {
		struct gm_mesh_shape s = { GPUMAP_MESH_DATA, 1, 1, 1 };

		wrong += compare(&s, world);
		s.kind = GPUMAP_MESH_TENSOR;
		for (s.tp = 1; s.tp <= world; s.tp++)
			wrong += compare(&s, world);
		s = (struct gm_mesh_shape){ GPUMAP_MESH_PIPELINE, 1, 1, 1 };
		for (s.pp = 1; s.pp <= world; s.pp++)
			wrong += compare(&s, world);
	}
	EQ(wrong, 0);
	EQ(compare_mixed(), 0);
	EQ(n_compared, 13 + 2 * 91 + 3 * 64);
}

/* ---- errors -------------------------------------------------------------- */

static void what_cannot_be_is_refused_in_words(void)
{
	static const struct {
		uint32_t kind;
		uint64_t tp, pp, dp, world;
		int code;
		const char *text;
	} cases[] = {
		{ GPUMAP_MESH_TENSOR, 8, 1, 1, 7, -EINVAL,
		  "Tensor parallel degree 8 requires at least 8 devices, got "
		  "7" },
		{ GPUMAP_MESH_PIPELINE, 1, 4, 1, 0, -EINVAL,
		  "Pipeline parallel requires 4 stages, got 0 devices" },
		{ GPUMAP_MESH_MIXED, 2, 3, 4, 23, -EINVAL,
		  "Mixed parallelism (TP=2, PP=3, DP=4) requires 24 devices, "
		  "got 23" },
		{ GPUMAP_MESH_TENSOR, 0, 1, 1, 7, -EINVAL,
		  "Tensor parallel degree 0 is no degree" },
		{ GPUMAP_MESH_PIPELINE, 1, 0, 1, 7, -EINVAL,
		  "Pipeline parallel of 0 stages is none" },
		{ GPUMAP_MESH_MIXED, 2, 3, 0, 7, -EINVAL,
		  "DP of a mixed mesh (TP=2, PP=3, DP=0) is 0" },
		{ GPUMAP_MESH_TENSOR, 2, 0, 1, 7, -EINVAL,
		  "PP of a tensor mesh (TP=2, PP=0, DP=1) is 0" },
		{ GPUMAP_MESH_PIPELINE, 0, 2, 1, 7, -EINVAL,
		  "TP of a pipeline mesh (TP=0, PP=2, DP=1) is 0" },
		{ GPUMAP_MESH_MIXED, UINT64_C(1) << 63, 0, 2, 7, -EINVAL,
		  "PP of a mixed mesh (TP=9223372036854775808, PP=0, DP=2) is "
		  "0" },
		{ GPUMAP_MESH_MIXED, UINT64_C(1) << 32, UINT64_C(1) << 31, 2, 7,
		  -EOVERFLOW,
		  "Mixed parallelism (TP=4294967296, PP=2147483648, DP=2) "
		  "requires 2^64 devices or more" },
		{ GPUMAP_MESH_TENSOR, 1, 1, 1, UINT64_MAX, -EOVERFLOW,
		  "a world of 18446744073709551615 devices has 2^64 groups or "
		  "more" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct gm_mesh_shape shape = { cases[i].kind, cases[i].tp,
						     cases[i].pp, cases[i].dp };
		struct gm_plan_error err = { .code = 0 };
		struct gm_mesh mesh;

		EQ(gm_mesh_make(&shape, cases[i].world, &mesh, &err),
		   cases[i].code);
		STR(err.text, cases[i].text);
		OK(err.remedy[0] != '\0');
	}
}

/* Its groups are known without any memory for them. */
static void the_largest_world_has_its_groups(void)
{
	struct gm_mesh_shape s = { GPUMAP_MESH_TENSOR, 3, 1, 1 };
	struct gm_mesh_group group;
	struct gm_mesh mesh;

	EQ(gm_mesh_make(&s, UINT64_MAX, &mesh, NULL), 0);
	EQ(gm_mesh_find(&mesh, "tp_6148914691236517204", &group), 0);
	OK(gm_mesh_rank(&group, 2) == UINT64_MAX - 1);
	EQ(gm_mesh_find(&mesh, "tp_6148914691236517205", &group), -ENOENT);
	EQ(gm_mesh_find(&mesh, "tp_18446744073709551615", &group), -ENOENT);
	EQ(gm_mesh_find(&mesh, "tp_18446744073709551616", &group), -ENOENT);
	EQ(gm_mesh_find(&mesh, "tp_03", &group), -ENOENT);
	EQ(gm_mesh_find(&mesh, "tp_", &group), -ENOENT);
	EQ(gm_mesh_find(&mesh, "", &group), -ENOENT);
}

/* ---- groups that a user adds --------------------------------------------- */

static void refuses_group(struct gm_mesh *mesh, const char *name,
			  const uint64_t *ranks, size_t n, int code,
			  const char *text)
{
	struct gm_plan_error err = { .code = 0 };
	uint32_t before = mesh->n_added;

	EQ(gm_mesh_add(mesh, name, GPUMAP_MESH_GLOO, ranks, n, &err), code);
	STR(err.text, text);
	EQ(mesh->n_added, before);
}

static void groups_are_added_and_checked(void)
{
	const struct gm_mesh_shape s = { GPUMAP_MESH_TENSOR, 2, 1, 1 };
	const uint64_t some[] = { 3, 0, 2 }, twice[] = { 1, 2, 1 }, out = 4;
	struct gm_mesh_group group;
	struct gm_mesh mesh;
	char longest[66];

	memset(longest, 'x', sizeof(longest));
	longest[64] = '\0';
	EQ(gm_mesh_make(&s, 4, &mesh, NULL), 0);
	EQ(gm_mesh_add(&mesh, "mine", GPUMAP_MESH_GLOO, some, 3, NULL), 0);
	EQ(gm_mesh_find(&mesh, "mine", &group), 0);
	OK(group.n == 3 && memcmp(group.ranks, some, sizeof(some)) == 0);
	refuses_group(&mesh, "b", twice, 3, -EINVAL,
		      "Group 'b' has rank 1 twice");
	refuses_group(&mesh, "b", &out, 1, -EINVAL, "Rank 4 out of bounds");
	refuses_group(&mesh, "b", some, 0, -EINVAL, "Group 'b' has no ranks");
	refuses_group(&mesh, "world", some, 1, -EEXIST,
		      "Group 'world' is one of a tensor mesh's own");
	refuses_group(&mesh, "tp_1", some, 1, -EEXIST,
		      "Group 'tp_1' is one of a tensor mesh's own");
	refuses_group(&mesh, "a b", some, 1, -EINVAL,
		      "\"a b\" cannot be a group's name");
	refuses_group(&mesh, "", some, 1, -EINVAL,
		      "\"\" cannot be a group's name");
	EQ(gm_mesh_add(&mesh, longest, GPUMAP_MESH_GLOO, some, 1, NULL),
	   -EINVAL);
	longest[63] = '\0';
	EQ(gm_mesh_add(&mesh, longest, GPUMAP_MESH_GLOO, some, 1, NULL), 0);
	EQ(gm_mesh_add(&mesh, "tp_2", GPUMAP_MESH_MPI, some, 1, NULL), 0);
	EQ(gm_mesh_add(&mesh, "mine", GPUMAP_MESH_MPI, some + 1, 1, NULL), 0);
	EQ(mesh.n_added, 3);
	EQ(gm_mesh_find(&mesh, "mine", &group), 0);
	OK(group.n == 1 && group.ranks[0] == 0 &&
	   group.backend == GPUMAP_MESH_MPI);
	gm_mesh_free(&mesh);
}

/* ---- texts --------------------------------------------------------------- */

static void shapes_read_back_as_they_print(void)
{
	static const char *const good[] = {
		"data",
		"tensor=4",
		"pipeline=18446744073709551615",
		"mixed=2x3x4",
	};
	static const struct {
		const char *text;
		int code;
	} bad[] = {
		{ "", -EINVAL },
		{ "data=1", -EINVAL },
		{ "tensor", -EINVAL },
		{ "tensor=", -EINVAL },
		{ "tensor=0", -EINVAL },
		{ "tensor=+1", -EINVAL },
		{ "tensor=1x", -EINVAL },
		{ "tensor=18446744073709551616", -EINVAL },
		{ "mixed=2x3", -EINVAL },
		{ "mixed=2x3x4x5", -EINVAL },
		{ "mixed=2x3x", -EINVAL },
		{ "mixed=2x0x1", -EINVAL },
		{ "mixed=4294967296x4294967296x1", -EOVERFLOW },
		{ "ring=3", -EINVAL },
	};
	char text[GM_MESH_TEXT];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct gm_mesh_shape shape;

		EQ(gm_mesh_parse(good[i], &shape, NULL), 0);
		STR(gm_mesh_print(&shape, text), good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct gm_plan_error err = { .code = 0 };
		struct gm_mesh_shape shape;

		if (!EQ(gm_mesh_parse(bad[i].text, &shape, &err), bad[i].code))
			NOTE("%s", bad[i].text);
		OK(err.text[0] != '\0' && err.remedy[0] != '\0');
	}
}

TAP_CASE()
{
	small_meshes_are_as_made_by_hand();
	what_cannot_be_is_refused_in_words();
	the_largest_world_has_its_groups();
	groups_are_added_and_checked();
	shapes_read_back_as_they_print();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A mesh that an agent left may have been damaged since: each way of it is
 * noticed by the next agent, which retires the segment and publishes the mesh
 * anew from its file; and no reader believes it meanwhile.
 */

#include <errno.h>

#include "shm/meshes.h"
#include "tests/support/damage.h"

static struct agent agent;

/* ---- words of the mesh --------------------------------------------------- */

/* @at counts 32 bits from the block's start. */
static void set(const struct agent_map *m, size_t at, uint32_t value)
{
	damage_set(m, GM_KIND_MESH, 4 * at, value);
}

static uint32_t get(const struct agent_map *m, size_t at)
{
	gm_a64 *word = damage_word(m, GM_KIND_MESH, at / 2);

	return (uint32_t)(gm_get(word) >> at % 2 * 32);
}

#define IMAGE(field) (offsetof(struct gm_mesh_image, field) / 4)
#define GROUP(i, field)                              \
	(sizeof(struct gm_mesh_image) / 4 +          \
	 (i) * (sizeof(struct gm_group_image) / 4) + \
	 offsetof(struct gm_group_image, field) / 4)

/* ---- damages ------------------------------------------------------------- */

static void odd_topology(struct agent_map *m)
{
	set(m, IMAGE(topology), 5);
}

static void no_world(struct agent_map *m)
{
	set(m, IMAGE(world), 0);
}

static void larger_world(struct agent_map *m)
{
	set(m, IMAGE(world), GM_ROWS + 1);
}

static void no_factor(struct agent_map *m)
{
	set(m, IMAGE(pp), 0);
}

static void factors_overflow(struct agent_map *m)
{
	set(m, IMAGE(tp), UINT32_MAX);
	set(m, IMAGE(pp), UINT32_MAX);
}

static void no_groups(struct agent_map *m)
{
	set(m, IMAGE(n_groups), 0);
}

static void too_many_groups(struct agent_map *m)
{
	set(m, IMAGE(n_groups), GM_MESH_GROUPS + 1);
}

static void groups_leave_the_block(struct agent_map *m)
{
	set(m, IMAGE(groups_at), UINT32_MAX - 7);
}

static void all_groups_added(struct agent_map *m)
{
	set(m, IMAGE(n_added), get(m, IMAGE(n_groups)));
}

static void flags_of_a_map(struct agent_map *m)
{
	set(m, IMAGE(object.flags), GM_OBJECT_COMMITTED);
}

static void world_has_other_ranks(struct agent_map *m)
{
	set(m, GROUP(0, n), 1);
}

static void group_has_no_ranks(struct agent_map *m)
{
	set(m, GROUP(1, n), 0);
}

static void group_has_too_many(struct agent_map *m)
{
	set(m, GROUP(1, n), 3);
}

static void group_has_no_name(struct agent_map *m)
{
	set(m, GROUP(1, name), 0);
}

static void groups_have_one_name(struct agent_map *m)
{
	set(m, GROUP(2, name), get(m, GROUP(1, name)));
}

static void ranks_leave_the_block(struct agent_map *m)
{
	set(m, GROUP(1, ranks_at), get(m, IMAGE(object.bytes)));
}

static void rows_are_half_words(struct agent_map *m)
{
	set(m, GROUP(1, rows_at), get(m, GROUP(1, rows_at)) + 4);
}

static void ranks_are_anothers(struct agent_map *m)
{
	set(m, GROUP(1, ranks_at), get(m, GROUP(0, ranks_at)));
}

static void rank_is_not_there(struct agent_map *m)
{
	set(m, get(m, GROUP(1, ranks_at)) / 4, 2);
}

static void rank_is_there_twice(struct agent_map *m)
{
	set(m, get(m, GROUP(0, ranks_at)) / 4, 1);
}

static void rank_on_another_row(struct agent_map *m)
{
	set(m, get(m, GROUP(1, rows_at)) / 4, 0);
}

static void row_is_not_there(struct agent_map *m)
{
	set(m, get(m, GROUP(0, rows_at)) / 4, 2);
}

static void row_is_there_twice(struct agent_map *m)
{
	set(m, get(m, GROUP(0, rows_at)) / 4, 0);
}

static const struct damage damages[] = {
	{ odd_topology, "is damaged", false },
	{ no_world, "is damaged", false },
	{ larger_world, "is damaged", false },
	{ no_factor, "is damaged", false },
	{ factors_overflow, "is damaged", false },
	{ no_groups, "is damaged", false },
	{ too_many_groups, "is damaged", false },
	{ groups_leave_the_block, "is damaged", false },
	{ all_groups_added, "is damaged", false },
	{ flags_of_a_map, "is damaged", true },
	{ world_has_other_ranks, "is damaged", true },
	{ group_has_no_ranks, "group 1 of the mesh in slot", false },
	{ group_has_too_many, "group 1 of the mesh in slot", false },
	{ group_has_no_name, "group 1 of the mesh in slot", false },
	{ groups_have_one_name, "has group tp_0 twice", true },
	{ ranks_leave_the_block, "group 1 of the mesh in slot", false },
	{ rows_are_half_words, "group 1 of the mesh in slot", false },
	{ ranks_are_anothers, "tables of group 1 of the mesh in slot", true },
	{ rank_is_not_there, "has a rank that is not there", true },
	{ rank_is_there_twice, "has a rank that is not there, or twice", true },
	{ rank_on_another_row, "or on another row", true },
	{ row_is_not_there, "uses a row that is not there", true },
	{ row_is_there_twice, "or one twice", true },
};

/* ---- each of them -------------------------------------------------------- */

static bool start(struct gpumap **ret_map)
{
	if (!agent_start_until(&agent, "open"))
		return false;
	*ret_map = story_attach(&agent);
	return *ret_map != NULL;
}

/* Rows 1 and 0, a group each, so that nothing is its own number. */
static bool publish(struct gpumap *map)
{
	static const uint32_t rows[] = { 1, 0 };
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "m",
		.topology = GPUMAP_MESH_TENSOR,
		.tp = 1,
		.pp = 1,
		.dp = 1,
		.rows = rows,
		.n_rows = 2,
	};

	return gpumap_mesh_publish(map, &request) == 0;
}

/* Whatever it says, it is no crash, and no more than the room there is. */
static bool readers_are_safe(struct gpumap *map, bool is_readable)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	uint32_t ranks[GPUMAP_ROWS_MAX], rows[GPUMAP_ROWS_MAX], cursor = 0;
	struct gpumap_view view;
	int n = 0, ret;

	gpumap_mesh_read(map, "m", NULL, rows, GPUMAP_ROWS_MAX);
	gpumap_mesh_group(map, "m", "tp_0", &group, ranks, rows,
			  GPUMAP_ROWS_MAX);
	if (gpumap_mesh_view(map, "m", NULL, GPUMAP_MESH_ROWS, &view) == 0)
		for (uint32_t i = 0; i < view.n; i++)
			gpumap_view_get(&view, i);
	do {
		ret = gpumap_mesh_next_group(map, "m", GPUMAP_MESH_ANY, &cursor,
					     &group);
		n += ret == 1;
	} while (ret == 1 && n < 10);
	return is_readable ? ret == 0 && n == 3 : ret == -EPROTO;
}

static bool is_as_published(struct gpumap *map)
{
	uint32_t rows[GPUMAP_ROWS_MAX];

	return gpumap_mesh_read(map, "m", NULL, rows, GPUMAP_ROWS_MAX) == 0 &&
	       rows[0] == 1 && rows[1] == 0 &&
	       gpumap_mesh_within(map, "m", "tp_1", 1) == 0;
}

TAP_CASE()
{
	static const struct damaged mesh = { &agent, start, publish,
					     readers_are_safe,
					     is_as_published };

	agent_make(&agent, "[host]\nrows = 2\n");
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++)
		damage_is_noticed(&mesh, &damages[i]);
	agent_remove(&agent);
	return tap_done();
}

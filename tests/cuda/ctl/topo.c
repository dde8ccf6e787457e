/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Links between cards: in the map as the driver reports them, and drawn by
 * gpumapctl topo. */

#define STAGE_CUDA 1
#include "tests/support/story_rows.h"
#include "tests/support/ctl.h"

static struct gpumap *map;

static struct gpumap_device_path path_of(uint32_t to, uint32_t from)
{
	struct gpumap_device_path path = { .size = sizeof(path) };

	EQ(gpumap_device_path_read(map, to, from, &path), 0);
	return path;
}

/* The rows of the cards of mixed.yaml, by their place there. */
static uint32_t rows[STAGE_ROWS];

static bool find_rows(void)
{
	static const char *const names[] = { "NVIDIA GeForce RTX 4090",
					     "Tesla T4",
					     "NVIDIA A100-SXM4-40GB",
					     "Tesla P100-PCIE-16GB" };
	uint32_t n = 0;

	for (uint32_t row = 0; row < STAGE_ROWS; row++)
		for (uint32_t i = 0; i < STAGE_ROWS; i++)
			if (strcmp(story_device(map, row).name, names[i]) ==
			    0) {
				rows[i] = row;
				n++;
			}
	return n == STAGE_ROWS;
}

/* Two NVLinks between the first two cards, one between the next two. */
static uint32_t links_between(uint32_t a, uint32_t b)
{
	uint32_t i = 0, k = 0;

	while (rows[i] != a)
		i++;
	while (rows[k] != b)
		k++;
	return i == k || i / 2 != k / 2 ? 0 : i < 2 ? 2 : 1;
}

static void the_map_has_the_links(void)
{
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	struct gpumap_device_path path = { .size = sizeof(path) };

	/* The probe asks for them after the rows are READY. */
	while (path_of(rows[3], rows[2]).nvlinks == 0 && story_now() < limit)
		story_nap(1000);
	for (uint32_t a = 0; a < STAGE_ROWS; a++)
		for (uint32_t b = 0; b < STAGE_ROWS; b++) {
			path = path_of(a, b);
			EQ(path.to, a);
			EQ(path.from, b);
			EQ(path.nvlinks, links_between(a, b));
			/* The bus will do for copies, too. */
			EQ(path.peer,
			   a != b ? GPUMAP_PEER_REPORTED : GPUMAP_PEER_NONE);
		}
	/* The host row has none. */
	EQ(path_of(STAGE_ROWS, 0).nvlinks, 0);
	EQ(path_of(0, STAGE_ROWS).peer, GPUMAP_PEER_NONE);
	EQ(gpumap_device_path_read(map, STAGE_ROWS + 1, 0, &path), -ENODEV);
	EQ(gpumap_device_path_read(map, 0, STAGE_ROWS + 1, &path), -ENODEV);
	path.size = 4;
	EQ(gpumap_device_path_read(map, 0, 1, &path), -EINVAL);
}

static void topo_draws_them(void)
{
	unsigned int drawn = 0;
	json_t *json, *link;
	char line[64];
	uint32_t a;
	size_t i;

	EQ(CTL("topo"), DONE);
	OK(prints("Links between cards"));
	OK(prints(" NV2"));
	OK(prints(" NV1"));
	EQ(CTL("topo", "--json"), DONE);
	json = object();
	json_array_foreach(json_object_get(json, "links"), i, link)
	{
		OK(has_fields(link, "a b path nvlinks"));
		EQ(number(link, "nvlinks"),
		   links_between((uint32_t)number(link, "a"),
				 (uint32_t)number(link, "b")));
		drawn += number(link, "nvlinks") != 0;
	}
	EQ(drawn, 2);
	json_decref(json);
	EQ(CTL("topo", "--format", "svg"), DONE);
	for (i = 0; i < STAGE_ROWS; i++) {
		snprintf(line, sizeof(line), "%s %u", i < 2 ? "NV2" : "NV1",
			 rows[i ^ 1]);
		OK(prints(line));
	}
	EQ(CTL("topo", "--format", "dot"), DONE);
	a = rows[2] < rows[3] ? rows[2] : rows[3];
	snprintf(line, sizeof(line), "row%u -- row%u [label=\"NV1\"]", a,
		 rows[2] + rows[3] - a);
	OK(prints(line));
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 1\n");
	cuda_scene_add(&stage_scene, "row 0: link to 1");
	cuda_scene_add(&stage_scene, "row 0: link to 1");
	cuda_scene_add(&stage_scene, "row 2: link to 3");
	if (OK(agent_start(&agent))) {
		map = story_attach(&agent);
		if (OK(find_rows())) {
			the_map_has_the_links();
			if (ctl_has_tool("topo"))
				topo_draws_them();
			else
				LACK("python", 1, "built without Python");
		}
	}
	story_finish(&agent, map);
	stage_end(&agent);
	return tap_done();
}

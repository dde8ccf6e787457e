/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The summary of a node with cards: they come before the host rows, with their
 * capability and the links between them.
 */

#include "agent/sync/summary_read.h"

#include "tests/support/cuda_agent.h"

static struct agent agent;
static struct cuda_scene scene;
static struct gpumap *map;

static uint32_t links_of(uint32_t row)
{
	struct gpumap_device_path path = { .size = sizeof(path) };
	uint32_t links = 0;

	for (uint32_t from = 0; from < gpumap_device_count(map); from++)
		if (from != row &&
		    gpumap_device_path_read(map, row, from, &path) == 0)
			links += path.nvlinks;
	return links;
}

/* Two links have four ends.  The probe asks for them after the rows are
 * READY. */
static void wait_for_links(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t ends;

	do {
		ends = 0;
		for (uint32_t row = 0; row < gpumap_device_count(map); row++)
			ends += links_of(row);
		story_nap(1000);
	} while (ends < 4 && story_now() < until);
	EQ(ends, 4);
}

static void cards_come_first(void)
{
	struct gm_summary s = { .node.name = "a" };
	uint32_t cards = 0, ends = 0;

	EQ(gm_summary_read_rows(map, &s), 0);
	while (cards < s.node.n_devices &&
	       s.devices[cards].kind == GPUMAP_DEVICE_CUDA)
		cards++;
	EQ(cards, 8);
	OK(s.node.n_devices > cards);
	for (uint32_t i = 0; i < s.node.n_devices; i++) {
		const struct gpumap_cluster_device *d = &s.devices[i];
		struct gpumap_device want = story_device(map, d->row);

		STR(d->name, want.name);
		EQ(d->state, want.state);
		EQ(d->cc_major, i < cards ? want.cc_major : 0);
		EQ(d->links, i < cards ? links_of(d->row) : 0);
		OK(i < cards || d->kind == GPUMAP_DEVICE_HOST);
		ends += d->links;
	}
	EQ(ends, 4);
	OK(s.devices[0].cc_major > 0);
	gm_summary_free(&s);
}

TAP_CASE()
{
	if (!OK(cuda_scene_make(&scene, "eight-gpu.yaml", NULL)))
		return tap_done();
	cuda_scene_add(&scene, "row 0: link to 1");
	cuda_scene_add(&scene, "row 0: link to 2");
	cuda_scene_agent(&scene, &agent, "", "");
	if (OK(agent_start(&agent))) {
		map = story_attach(&agent);
		wait_for_links();
		cards_come_first();
		story_finish(&agent, map);
	}
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}

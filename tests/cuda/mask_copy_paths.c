/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * By which way large masks reach the cards of machines that have no links:
 * where one card may read another, from what is there already; where none may,
 * from the host alone.
 */

#include "tests/support/mask_replicas.h"

static struct mask_cards m;

static bool start(const char *node, uint32_t n)
{
	if (!cuda_scene_make(&m.scene, node, NULL))
		return false;
	cuda_scene_agent(&m.scene, &m.agent, "",
			 "[host]\nrows = 1\n[masks]\nbytes = 256M\n");
	return OK(agent_start(&m.agent)) &&
	       OK((m.map = story_attach(&m.agent)) != NULL) &&
	       mask_cards_find(&m, n);
}

static void finish(void)
{
	story_finish(&m.agent, m.map);
	agent_remove(&m.agent);
	cuda_scene_end(&m.scene);
	memset(&m, 0, sizeof(m));
}

/* NVML is asked about paths after the rows are READY. */
static void what_is_there_is_copied(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	do {
		EQ(mask_cards_publish(&m, "one", MASK_LARGE, 1), 0);
		EQ(mask_cards_again(&m, "two", MASK_LARGE, 2), 0);
		OK(mask_cards_right(&m, "two", MASK_LARGE, 2));
		EQ(gpumap_mask_release(m.map, "two"), 0);
		EQ(gpumap_mask_release(m.map, "one"), 0);
	} while (mask_cards_made(&m, m.rows[1], "peer") == 0 &&
		 tap_failures == 0 && story_now() < until);
	EQ(mask_cards_made(&m, m.rows[1], "peer"), 1);
	EQ(mask_cards_made(&m, m.rows[0], "peer"), 0);
}

/* Both are asked for at once, and an upload is as fast as such a copy. */
static void nobody_waits(void)
{
	uint32_t uploads = mask_cards_made(&m, m.rows[1], "upload");

	EQ(mask_cards_publish(&m, "both", MASK_LARGE, 2), 0);
	OK(mask_cards_right(&m, "both", MASK_LARGE, 2));
	EQ(mask_cards_made(&m, m.rows[1], "peer"), 1);
	EQ(mask_cards_made(&m, m.rows[1], "upload"), uploads + 1);
	EQ(gpumap_mask_release(m.map, "both"), 0);
}

/* Halves of a card do not read each other. */
static void without_a_path_all_are_uploaded(void)
{
	for (int i = 0; i < 3; i++) {
		EQ(mask_cards_publish(&m, "one", MASK_LARGE, 1), 0);
		EQ(mask_cards_again(&m, "two", MASK_LARGE, 2), 0);
		OK(mask_cards_right(&m, "two", MASK_LARGE, 2));
		EQ(gpumap_mask_release(m.map, "two"), 0);
		EQ(gpumap_mask_release(m.map, "one"), 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		EQ(mask_cards_made(&m, m.rows[i], "upload"), 3);
		EQ(mask_cards_made(&m, m.rows[i], "peer"), 0);
	}
	OK(!agent_logged(&m.agent, "event=peers_"));
}

TAP_CASE()
{
	if (start("scarce.yaml", 2)) {
		what_is_there_is_copied();
		nobody_waits();
	}
	finish();
	if (start("halves.yaml", 2))
		without_a_path_all_are_uploaded();
	finish();
	return tap_done();
}

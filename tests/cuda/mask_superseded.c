/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A mask that the agent publishes anew, for a worker has died, while a client
 * publishes another one of that name: what the agent had in hand is of no use
 * then, and what the client has published stays.
 */

#include "tests/support/mask_replicas.h"

#define OLD 700u
#define NEW 900u

static struct mask_cards m;

static uint64_t version_of(const char *name)
{
	struct gpumap_mask *mask = NULL;
	uint64_t version = 0;

	if (gpumap_mask_open(m.map, name, 0, &mask) == 0) {
		const struct gpumap_mask_view *view = NULL;

		if (gpumap_mask_get(m.map, mask, m.rows[0], &view) == 0)
			version = view->version;
	}
	gpumap_mask_close(m.map, mask);
	return version;
}

static void copies_take(uint32_t i, const char *time)
{
	struct gpumap_device device = story_device(m.map, m.rows[i]);

	cuda_scene_add(&m.scene, "row %u: copies take %s",
		       cuda_scene_gpu(&m.scene, &device), time);
}

/* The first card has its replica of the new mask, which its worker's death
 * makes invalid, and the second card is still making its own.  The old mask is
 * to have another replica on the first card, which takes longer than that. */
static void publish_over(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_device device = story_device(m.map, m.rows[0]);
	uint32_t made = mask_cards_made(&m, m.rows[0], "upload");
	pid_t pid;

	copies_take(1, "1s");
	pid = mask_cards_publish_from(&m, "mask", NEW, 2);
	while (mask_cards_made(&m, m.rows[0], "upload") == made &&
	       story_now() < until)
		story_nap(1000);
	copies_take(0, "3s");
	kill((pid_t)device.worker_pid, SIGKILL);
	EQ(mask_cards_reap(pid), 0);
}

static void the_client_s_stays(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, version;

	EQ(mask_cards_publish(&m, "mask", OLD, 2), 0);
	publish_over();
	version = version_of("mask");
	OK(version != 0);
	while (version_of("mask") == version && story_now() < until)
		story_nap(1000);
	OK(version_of("mask") > version);
	cuda_scene_mend(&m.scene);
	OK(mask_cards_right(&m, "mask", NEW, 2));
}

TAP_CASE()
{
	if (!cuda_scene_make(&m.scene, "scarce.yaml", NULL))
		return tap_done();
	cuda_scene_agent(&m.scene, &m.agent, "", "[host]\nrows = 1\n");
	if (OK(agent_start(&m.agent)) && OK((m.map = story_attach(&m.agent))) &&
	    mask_cards_find(&m, 2))
		the_client_s_stays();
	story_finish(&m.agent, m.map);
	agent_remove(&m.agent);
	cuda_scene_end(&m.scene);
	return tap_done();
}

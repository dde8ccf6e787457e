/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Large masks on several cards: the first is uploaded, and the others copy it
 * from card to card, which shows where links spoil what goes over them after
 * they have been tried.  Links that lie from the beginning are found out, what
 * a client was given is never copied from, and workers may die at any moment.
 */

#include "tests/support/mask_replicas.h"

static struct mask_cards m;

static uint32_t peer_of(uint32_t to, uint32_t from)
{
	struct gpumap_device_path path = { .size = sizeof(path) };

	EQ(gpumap_device_path_read(m.map, m.rows[to], m.rows[from], &path), 0);
	return path.peer;
}

static void paths_are_tried(void)
{
	struct gpumap_device_path older = { .size = 4 };

	EQ(gpumap_device_path_read(m.map, 1, 0, &older), -EINVAL);
	OK(mask_cards_try(&m, MASK_CARDS));
	OK(agent_logged(&m.agent, "way=peer"));
	OK(agent_logged(&m.agent, "way=upload"));
	OK(!agent_logged(&m.agent, "event=peers_bad"));
	for (uint32_t i = 1; i < MASK_CARDS; i++)
		EQ(peer_of(i, 0), GPUMAP_PEER_RIGHT);
}

/* Tried, they are relied on: so what they spoil is to be seen, in all but
 * one. */
static void large_ones_go_over_the_links(void)
{
	uint32_t spoilt = 0, right = 0;

	mask_cards_spoil(&m);
	EQ(mask_cards_publish(&m, "over", MASK_LARGE, MASK_CARDS), 0);
	for (uint32_t i = 0; i < MASK_CARDS; i++) {
		uint64_t n =
			mask_cards_wrong(&m, "over", m.rows[i], MASK_LARGE);

		right += n == 0;
		spoilt += n == 1;
	}
	EQ(right, 1);
	EQ(spoilt, MASK_CARDS - 1);
	EQ(mask_cards_publish(&m, "over", MASK_SMALL, MASK_CARDS), 0);
	OK(mask_cards_right(&m, "over", MASK_SMALL, MASK_CARDS));
	EQ(gpumap_mask_release(m.map, "over"), 0);
	mask_cards_link(&m);
}

/* A client that got a replica may have written there. */
static void what_is_lent_is_not_copied(void)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	struct mask_import it;

	EQ(mask_cards_publish(&m, "lent", MASK_LARGE, 1), 0);
	if (!EQ(gpumap_mask_open(m.map, "lent", 0, &mask), 0))
		return;
	if (EQ(gpumap_mask_get(m.map, mask, m.rows[0], &view), 0) &&
	    OK(mask_cards_import(&m, m.map, view, &it))) {
		memset(it.at, 0x77, it.bytes);
		EQ(mask_cards_again(&m, "twin", MASK_LARGE, MASK_CARDS), 0);
		for (uint32_t i = 1; i < MASK_CARDS; i++)
			EQ(mask_cards_wrong(&m, "twin", m.rows[i], MASK_LARGE),
			   0);
		mask_cards_give_back(&m, &it);
		EQ(gpumap_mask_release(m.map, "twin"), 0);
	}
	gpumap_mask_close(m.map, mask);
	EQ(gpumap_mask_release(m.map, "lent"), 0);
}

static void workers_die(void)
{
	int published = 0;

	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_device device = story_device(
			m.map, m.rows[(uint32_t)round % MASK_CARDS]);
		pid_t killer = fork();
		int ret;

		if (killer == 0) {
			story_nap(story_moment(round, 8000));
			if (device.worker_pid != 0)
				kill((pid_t)device.worker_pid, SIGKILL);
			_exit(0);
		}
		ret = mask_cards_publish(&m, "dies", MASK_LARGE, MASK_CARDS);
		waitpid(killer, NULL, 0);
		published += ret == 0;
		if (ret == 0 &&
		    !OK(mask_cards_right(&m, "dies", MASK_LARGE, MASK_CARDS)))
			break;
		/* A row whose workers die all the time may be refused. */
		if (ret != 0 && ret != -EIO && ret != -ENODEV) {
			EQ(ret, 0);
			break;
		}
	}
	OK(published > 0);
}

/* The next agent knows no path. */
static void links_that_lie_are_found_out(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t wrong = 0;

	gpumap_detach(m.map);
	EQ(agent_kill(&m.agent, SIGTERM), 0);
	mask_cards_spoil(&m);
	OK(agent_start(&m.agent));
	m.map = story_attach(&m.agent);
	do {
		if (!EQ(mask_cards_publish(&m, "lies", MASK_LARGE, MASK_CARDS),
			0) ||
		    !OK(mask_cards_right(&m, "lies", MASK_LARGE, MASK_CARDS)))
			return;
	} while (!agent_logged(&m.agent, "event=peers_bad") &&
		 story_now() < until);
	OK(agent_logged(&m.agent, "event=peers_bad"));
	for (uint32_t i = 0; i < MASK_CARDS; i++)
		for (uint32_t j = 0; j < MASK_CARDS; j++)
			wrong += peer_of(i, j) == GPUMAP_PEER_WRONG;
	EQ(wrong, agent_count_log(&m.agent, "event=peers_bad"));
	EQ(gpumap_mask_release(m.map, "lies"), 0);
}

TAP_CASE()
{
	if (!cuda_scene_make(&m.scene, "mixed.yaml", NULL))
		return tap_done();
	mask_cards_link(&m);
	cuda_scene_agent(&m.scene, &m.agent, "",
			 "[host]\nrows = 1\n[masks]\nbytes = 256M\n");
	if (OK(agent_start(&m.agent)) && OK((m.map = story_attach(&m.agent))) &&
	    mask_cards_find(&m, MASK_CARDS)) {
		paths_are_tried();
		large_ones_go_over_the_links();
		what_is_lent_is_not_copied();
		workers_die();
		links_that_lie_are_found_out();
	}
	story_finish(&m.agent, m.map);
	agent_remove(&m.agent);
	cuda_scene_end(&m.scene);
	return tap_done();
}

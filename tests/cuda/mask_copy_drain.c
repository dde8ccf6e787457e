/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Cards that are drained while masks are copied from card to card, which takes
 * long here: when gpumapctl says that a card is drained no process uses its
 * memory, also where no client waits any more for the mask that is being copied
 * from it.
 */

#include "tests/support/mask_replicas.h"
#include "tests/support/users.h"

#define STRANGER 65534u
#define SLOW     "700ms" /* a copy; only what is met depends on it */

static struct mask_cards m;

/* Descriptors of the card's memory, in any process. */
static uint32_t objects_of(uint32_t i)
{
	uint32_t gpu = mask_cards_gpu(&m, i), n = 0;

	fake_lock(&m.scene.hw);
	fake_sweep(&m.scene.hw);
	for (uint32_t k = 0; k < FAKE_OBJECTS; k++) {
		const struct fake_object *object =
			&m.scene.hw.board->objects[k];

		n += object->serial != 0 && object->gpu == gpu;
	}
	fake_unlock(&m.scene.hw);
	return n;
}

static void is_draining(uint32_t i)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_device(m.map, m.rows[i]).state != GPUMAP_DEVICE_DRAINING &&
	       story_now() < until)
		story_nap(1000);
	EQ(story_device(m.map, m.rows[i]).state, GPUMAP_DEVICE_DRAINING);
}

static void what_is_copied_from_is_drained(void)
{
	pid_t pid = mask_cards_publish_slowly(&m, "source", 3, SLOW);

	EQ(gpumap_device_drain(m.map, m.rows[0]), 0);
	EQ(objects_of(0), 0);
	mask_cards_link(&m);
	/* The card had its replica, and will have one when it is back. */
	EQ(mask_cards_reap(pid), 0);
	mask_cards_back(&m, 0);
	OK(mask_cards_right(&m, "source", MASK_LARGE, 3));
	EQ(gpumap_mask_release(m.map, "source"), 0);
}

static void what_is_copied_to_is_drained(void)
{
	pid_t pid = mask_cards_publish_slowly(&m, "sink", 2, SLOW);

	EQ(gpumap_device_drain(m.map, m.rows[1]), 0);
	EQ(objects_of(1), 0);
	mask_cards_link(&m);
	EQ(mask_cards_reap(pid), -ENODEV);
	mask_cards_back(&m, 1);
	EQ(mask_cards_publish(&m, "sink", MASK_LARGE, 2), 0);
	OK(mask_cards_right(&m, "sink", MASK_LARGE, 2));
	EQ(gpumap_mask_release(m.map, "sink"), 0);
}

/* No client wants the mask that is being copied any more when the card that it
 * is copied from is to be released. */
static void both_are_drained(void)
{
	pid_t pid = mask_cards_publish_slowly(&m, "both", 2, SLOW),
	      drain = mask_cards_drain_from(&m, 1);

	is_draining(1);
	EQ(gpumap_device_drain(m.map, m.rows[0]), 0);
	EQ(objects_of(0), 0);
	EQ(mask_cards_reap(drain), 0);
	EQ(objects_of(1), 0);
	mask_cards_link(&m);
	EQ(mask_cards_reap(pid), -ENODEV);
	mask_cards_back(&m, 0);
	mask_cards_back(&m, 1);
	EQ(mask_cards_publish(&m, "both", MASK_LARGE, 2), 0);
	OK(mask_cards_right(&m, "both", MASK_LARGE, 2));
	EQ(gpumap_mask_release(m.map, "both"), 0);
}

/* Another user's charges: its replica on the first card, and on the second card
 * a copy of another user's replica. */
static void be_stranger(void)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	struct mask_import it;

	if (!user_become(STRANGER, STRANGER))
		_exit(1);
	m.map = story_attach(&m.agent);
	if (m.map == NULL || mask_cards_again(&m, "his", MASK_LARGE, 1) != 0 ||
	    gpumap_mask_open(m.map, "ours", 0, &mask) != 0 ||
	    gpumap_mask_get(m.map, mask, m.rows[1], &view) != 0)
		_exit(2);
	mask_cards_import(&m, m.map, view, &it);
	_exit(3); /* it was to be killed before */
}

static void who_waits_for_a_copy_dies(void)
{
	uint32_t first = m.rows[0];
	uint64_t copies[MASK_CARDS];
	pid_t pid;

	m.rows[0] = m.rows[1];
	EQ(mask_cards_publish(&m, "ours", MASK_LARGE, 1), 0);
	m.rows[0] = first;
	mask_cards_slow(&m, 2, SLOW, copies);
	pid = fork();
	if (pid == 0)
		be_stranger();
	mask_cards_at_it(&m, 2, copies);
	kill(pid, SIGKILL);
	EQ(mask_cards_reap(pid), -ECHILD);
	EQ(gpumap_device_drain(m.map, m.rows[0]), 0);
	EQ(objects_of(0), 0);
	mask_cards_link(&m);
	mask_cards_back(&m, 0);
	OK(mask_cards_wrong(&m, "ours", m.rows[1], MASK_LARGE) == 0);
	EQ(gpumap_mask_release(m.map, "ours"), 0);
	EQ(gpumap_mask_release(m.map, "his"), 0);
}

static bool start(void)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "[host]\nrows = 1\n[masks]\nbytes = 256M\n"
		 "[socket]\nmode = %s\ngroup = %u\n",
		 geteuid() == 0 ? "0660" : "0600",
		 geteuid() == 0 ? STRANGER : getegid());
	cuda_scene_agent(&m.scene, &m.agent, "", text);
	if (!OK(agent_start(&m.agent)))
		return false;
	if (geteuid() == 0)
		chmod(m.agent.dir, 0711);
	m.map = story_attach(&m.agent);
	return OK(m.map != NULL) && mask_cards_find(&m, 3);
}

TAP_CASE()
{
	if (!cuda_scene_make(&m.scene, "mixed.yaml", NULL))
		return tap_done();
	mask_cards_link(&m);
	if (start() && mask_cards_try(&m, 3)) {
		what_is_copied_from_is_drained();
		what_is_copied_to_is_drained();
		both_are_drained();
		if (geteuid() == 0)
			who_waits_for_a_copy_dies();
		else
			SKIP(1, "needs root");
	}
	story_finish(&m.agent, m.map);
	agent_remove(&m.agent);
	cuda_scene_end(&m.scene);
	return tap_done();
}

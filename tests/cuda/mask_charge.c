/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A card's memory of a replica is charged to its user for as long as any
 * process may have that memory: the worker that copies another replica from it,
 * the worker that makes it, a client that got its descriptor, also where no
 * mask has it any more, or the card was out of service meanwhile.  The agent
 * counts the descriptors that it keeps for replicas, too.
 */

#include <sys/resource.h>

#include "tests/support/mask_replicas.h"

#define EVER  "600s"              /* a copy: until its worker is killed */
#define LARGE (UINT64_C(8) << 20) /* less than a replica takes */

static struct mask_cards m;

/* Take half of a card's memory, which is all that a user may have, less a
 * little that is smaller than a replica.  Returns 0, or the reason of the
 * refusal. */
static int take_rest(uint32_t i)
{
	struct gpumap_device device = story_device(m.map, m.rows[i]);
	struct gpumap_session_opts opts = { .size = sizeof(opts) };
	uint64_t bytes = device.total_bytes / 2 - LARGE, buffer, export;
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_session *session = NULL;
	int ret = gpumap_session_open(m.map, &opts, &session);

	if (ret == 0)
		ret = gpumap_buffer_alloc(session, m.rows[i], bytes,
					  GPUMAP_BUFFER_EXPORTABLE,
					  GPUMAP_NO_DEADLINE, &buffer);
	if (ret == 0)
		ret = gpumap_buffer_export(session, buffer, &export);
	gpumap_session_close(session);
	while (gpumap_usage_list(m.map, NULL, 0) > 0 && story_now() < until)
		story_nap(1000);
	return ret;
}

/* The agent reads the free memory now and then. */
static bool is_given_back(uint32_t i)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret = take_rest(i);

	while (ret != 0 && story_now() < until) {
		story_nap(20000);
		ret = take_rest(i);
	}
	return EQ(ret, 0);
}

static void kill_worker(uint32_t i)
{
	struct gpumap_device device = story_device(m.map, m.rows[i]);

	if (OK(device.worker_pid > 0))
		kill((pid_t)device.worker_pid, SIGKILL);
}

/* The mask is given up for a card that is drained, while that copies from the
 * other yet. */
static void one_that_no_mask_has(void)
{
	pid_t pid = mask_cards_publish_slowly(&m, "sink", 2, EVER), drain;

	EQ(take_rest(0), -EDQUOT);
	drain = mask_cards_drain_from(&m, 1);
	EQ(mask_cards_reap(pid), -ENODEV);
	EQ(take_rest(0), -EDQUOT);
	mask_cards_link(&m);
	kill_worker(1);
	EQ(mask_cards_reap(drain), 0);
	OK(is_given_back(0));
	mask_cards_back(&m, 1);
	OK(is_given_back(1));
}

/* Its card goes out of service and comes back, while the other copies from
 * it. */
static void one_that_is_out_of_service(void)
{
	pid_t pid = mask_cards_publish_slowly(&m, "source", 2, EVER), drain;
	uint64_t until = story_now() + STORY_LIMIT_NS;

	drain = mask_cards_drain_from(&m, 0);
	while (story_device(m.map, m.rows[0]).state != GPUMAP_DEVICE_DRAINING &&
	       story_now() < until)
		story_nap(1000);
	mask_cards_back(&m, 0);
	mask_cards_reap(drain);
	EQ(take_rest(0), -EDQUOT);
	mask_cards_link(&m);
	kill_worker(1);
	EQ(mask_cards_reap(pid), 0);
	OK(mask_cards_right(&m, "source", MASK_LARGE, 2));
	EQ(gpumap_mask_release(m.map, "source"), 0);
	OK(is_given_back(0));
	OK(is_given_back(1));
}

static void one_that_a_client_has(void)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap *by = story_attach(&m.agent);
	struct gpumap_mask *mask = NULL;
	struct mask_import it;

	EQ(mask_cards_publish(&m, "lent", MASK_LARGE, 1), 0);
	EQ(gpumap_mask_open(m.map, "lent", 0, &mask), 0);
	EQ(gpumap_mask_get(m.map, mask, m.rows[0], &view), 0);
	if (OK(by != NULL) && OK(mask_cards_import(&m, by, view, &it))) {
		EQ(gpumap_device_drain(m.map, m.rows[0]), 0);
		EQ(gpumap_mask_release(m.map, "lent"), 0);
		mask_cards_back(&m, 0);
		EQ(take_rest(0), -EDQUOT);
		mask_cards_give_back(&m, &it);
	}
	gpumap_mask_close(m.map, mask);
	gpumap_detach(by);
	OK(is_given_back(0));
}

/* Descriptors that it says it needs when a user may have so many masks. */
static uint64_t needed_with(uint32_t masks)
{
	uint64_t needed;
	char text[128];

	snprintf(text, sizeof(text),
		 "[host]\nrows = 1\n[limits]\nobjects-per-uid = %u\n", masks);
	cuda_scene_agent(&m.scene, &m.agent, "", text);
	if (!OK(agent_start(&m.agent)))
		return 0;
	EQ(agent_kill(&m.agent, SIGTERM), 0);
	needed = agent_logged_number(&m.agent, "few_descriptors", "needed");
	OK(needed != UINT64_MAX);
	return needed;
}

/* Lowers its own limit for good: the last of all. */
static void each_takes_a_descriptor(void)
{
	struct rlimit few = { 900, 900 };

	EQ(agent_kill(&m.agent, SIGTERM), 0);
	if (EQ(setrlimit(RLIMIT_NOFILE, &few), 0))
		EQ(needed_with(101) - needed_with(100), 2);
}

static bool start(const char *text)
{
	cuda_scene_agent(&m.scene, &m.agent, "", text);
	if (!OK(agent_start(&m.agent)))
		return false;
	m.map = story_attach(&m.agent);
	return OK(m.map != NULL) && mask_cards_find(&m, 2);
}

TAP_CASE()
{
	if (!cuda_scene_make(&m.scene, "scarce.yaml", NULL))
		return tap_done();
	mask_cards_link(&m);
	if (start("[host]\nrows = 1\n[masks]\nbytes = 256M\n"
		  "[agent]\nrefresh = 50ms\n") &&
	    mask_cards_try(&m, 2)) {
		OK(is_given_back(0));
		one_that_no_mask_has();
		one_that_is_out_of_service();
		one_that_a_client_has();
		gpumap_detach(m.map);
		each_takes_a_descriptor();
	} else {
		story_finish(&m.agent, m.map);
	}
	agent_remove(&m.agent);
	cuda_scene_end(&m.scene);
	return tap_done();
}

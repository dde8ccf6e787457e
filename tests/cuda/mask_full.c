/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks and a card that is full, or out of service: a mask that follows a map
 * to the card has no replica there until a client gives memory back, or the
 * card is back; and another user, whose own replica cannot be made, has no
 * imports for that.
 */

#include <unistd.h>

#include <gpumap/plan.h>

#include "tests/support/mask_replicas.h"

#define STRANGER 61364u

static struct mask_cards m;

static int publish_map(const char *spec, uint32_t n)
{
	uint64_t bytes[3] = { 1, 1, 1 };
	struct gpumap_layers_request r = { .size = sizeof(r),
					   .name = "model",
					   .spec = spec,
					   .n_layers = n,
					   .layer_bytes = bytes };

	return gpumap_layers_publish(m.map, &r);
}

static int publish_follower(const char *name)
{
	const struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = MASK_LARGE,
		.sliding_window = ++m.window,
		.map = "model",
	};

	return gpumap_mask_publish(m.map, &r, NULL);
}

/* Which rows have it, as bits. */
static uint64_t rows_of(const char *name)
{
	uint32_t got[16];
	struct gpumap_mask_info info = { .size = sizeof(info) };
	uint64_t rows = 0;

	if (gpumap_mask_read(m.map, name, &info, got, 16) != 0)
		return 0;
	for (uint32_t i = 0; i < info.n_rows; i++)
		rows |= UINT64_C(1) << got[i];
	return rows;
}

static bool gets_rows(const char *name, uint64_t rows)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (rows_of(name) != rows && story_now() < until)
		story_nap(2000);
	return EQ(rows_of(name), rows);
}

/* A client takes all that is left of a card, and gives it back. */
static void fill_up(uint32_t gpu, uint64_t *bytes, bool more)
{
	fake_lock(&m.scene.hw);
	if (more)
		*bytes = fake_free_bytes(&m.scene.hw, gpu);
	m.scene.hw.board->gpus[gpu].reserved +=
		more ? *bytes : UINT64_C(0) - *bytes;
	fake_unlock(&m.scene.hw);
}

static void it_comes_when_there_is_room(void)
{
	struct gpumap_device device = story_device(m.map, m.rows[0]);
	uint32_t gpu = cuda_scene_gpu(&m.scene, &device);
	uint64_t first = UINT64_C(1) << m.rows[0], left = 0;
	uint64_t second = UINT64_C(1) << m.rows[1];
	char one[32], both[32];

	snprintf(one, sizeof(one), "%u:2", m.rows[1]);
	snprintf(both, sizeof(both), "%u:1;%u:1", m.rows[0], m.rows[1]);
	/* A worker of its own is there by then. */
	EQ(mask_cards_publish(&m, "small", MASK_SMALL, 1), 0);
	EQ(publish_map(one, 2), 0);
	EQ(publish_follower("mask"), 0);
	OK(gets_rows("mask", second));
	fill_up(gpu, &left, true);
	EQ(publish_map(both, 2), 0);
	OK(agent_wait_log(&m.agent, "event=mask_without name=mask"));
	EQ(rows_of("mask"), second);
	fill_up(gpu, &left, false);
	if (!gets_rows("mask", first | second))
		return;
	OK(mask_cards_right(&m, "mask", MASK_LARGE, 2));
	EQ(story_device(m.map, m.rows[0]).restarts, 0);
	EQ(gpumap_mask_release(m.map, "mask"), 0);
	EQ(gpumap_mask_release(m.map, "small"), 0);
}

static void kill_worker(uint32_t i)
{
	struct gpumap_device device = story_device(m.map, m.rows[i]);

	if (OK(device.worker_pid > 0))
		kill((pid_t)device.worker_pid, SIGKILL);
}

/* The card goes and comes back while the third card's replica is being made:
 * after the agent has decided that the mask does without this card's replica,
 * and before it publishes that. */
static void it_comes_when_the_card_is_back(void)
{
	uint64_t all = UINT64_C(1) << m.rows[0] | UINT64_C(1) << m.rows[1] |
		       UINT64_C(1) << m.rows[2];
	const uint32_t gpus[] = { mask_cards_gpu(&m, 0),
				  mask_cards_gpu(&m, 2) };
	uint64_t copies[2];
	char one[32], spec[48];
	pid_t drain;

	snprintf(one, sizeof(one), "%u:3", m.rows[1]);
	snprintf(spec, sizeof(spec), "%u:1;%u:1;%u:1", m.rows[0], m.rows[1],
		 m.rows[2]);
	EQ(publish_map(one, 3), 0);
	EQ(publish_follower("late"), 0);
	for (int i = 0; i < 2; i++) {
		copies[i] = cuda_scene_copies(&m.scene, gpus[i]);
		cuda_scene_add(&m.scene, "row %u: copies take 600s", gpus[i]);
	}
	EQ(publish_map(spec, 3), 0);
	for (int i = 0; i < 2; i++)
		STORY_WAIT_WHILE(cuda_scene_copies(&m.scene, gpus[i]) ==
				 copies[i]);
	drain = mask_cards_drain_from(&m, 0);
	OK(agent_wait_log(&m.agent, "event=mask_without name=late"));
	cuda_scene_mend(&m.scene);
	kill_worker(0);
	EQ(mask_cards_reap(drain), 0);
	mask_cards_back(&m, 0);
	kill_worker(2);
	if (gets_rows("late", all))
		OK(mask_cards_right(&m, "late", MASK_LARGE, 3));
}

/* Until the call with false this process is another user. */
static bool be_stranger(bool is)
{
	return is ? setegid(STRANGER) == 0 && seteuid(STRANGER) == 0
		  : seteuid(0) == 0 && setegid(0) == 0;
}

/* By one connection, more often than a user may have imports. */
static int ask_for(const struct gpumap_mask_view *view, uint64_t *left,
		   uint32_t gpu)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	struct gpumap *by;
	int ret = 0, fd = -1;

	if (!OK(be_stranger(true)))
		return -EPERM;
	by = story_attach(&m.agent);
	fill_up(gpu, left, true);
	for (int i = 0; i < 4; i++) {
		ret = gpumap_export_fd(by, view->export_id, &info, &fd);
		EQ(ret, -ENOMEM);
		if (ret != -ENOMEM)
			NOTE("%s", gpumap_refusal(by));
	}
	fill_up(gpu, left, false);
	ret = gpumap_export_fd(by, view->export_id, &info, &fd);
	if (ret == 0)
		close(fd);
	gpumap_detach(by);
	OK(be_stranger(false));
	return ret;
}

static void what_failed_is_no_import(void)
{
	struct gpumap_device device = story_device(m.map, m.rows[0]);
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	uint64_t left = 0;

	if (geteuid() != 0) {
		SKIP(1, "needs root, to be two users");
		return;
	}
	if (EQ(mask_cards_publish(&m, "lent", MASK_LARGE, 1), 0) &&
	    EQ(gpumap_mask_open(m.map, "lent", 0, &mask), 0) &&
	    EQ(gpumap_mask_get(m.map, mask, m.rows[0], &view), 0))
		EQ(ask_for(view, &left, cuda_scene_gpu(&m.scene, &device)), 0);
	gpumap_mask_close(m.map, mask);
	EQ(gpumap_mask_release(m.map, "lent"), 0);
}

static bool begin(const char *refresh)
{
	char config[160];

	snprintf(config, sizeof(config),
		 "[host]\nrows = 1\n[agent]\nrefresh = %s\n"
		 "[limits]\nimports-per-uid = 2\n"
		 "[socket]\nmode = 0660\ngroup = %u\n",
		 refresh, geteuid() == 0 ? STRANGER : getegid());
	cuda_scene_agent(&m.scene, &m.agent, "", config);
	return OK(agent_start(&m.agent)) &&
	       OK((m.map = story_attach(&m.agent)) != NULL) &&
	       mask_cards_find(&m, 3);
}

static void end(void)
{
	story_finish(&m.agent, m.map);
	agent_remove(&m.agent);
}

TAP_CASE()
{
	if (!cuda_scene_make(&m.scene, "mixed.yaml", NULL))
		return tap_done();
	/* The agent does not see that the card is full: it asks the card. */
	if (begin("3600s"))
		what_failed_is_no_import();
	end();
	if (begin("50ms")) {
		it_comes_when_there_is_room();
		it_comes_when_the_card_is_back();
	}
	end();
	cuda_scene_end(&m.scene);
	return tap_done();
}

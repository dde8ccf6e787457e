/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks on cards whose workers have ended because no client needed them:
 * replicas stay as they were, are given to clients that ask, are copied to
 * further cards, and jobs find them with the next worker.
 */

#include "tests/support/mask_replicas.h"

static struct mask_cards m;

static bool is_idle(uint32_t i)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_device(m.map, m.rows[i]).worker_pid != 0 &&
	       story_now() < until)
		story_nap(2000);
	return EQ(story_device(m.map, m.rows[i]).worker_pid, 0) &&
	       EQ(story_device(m.map, m.rows[i]).state, GPUMAP_DEVICE_READY) &&
	       EQ(story_device(m.map, m.rows[i]).restarts, 0);
}

static uint64_t version_of(const char *name)
{
	struct gpumap_mask_info info = { .size = sizeof(info) };

	return gpumap_mask_read(m.map, name, &info, NULL, 0) == 0 ? info.version
								  : 0;
}

/* A mask of u8 with its zeros. */
static bool jobs_find_it(const char *name, uint32_t row)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 1 << 20 };
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = MASK_LARGE };
	const uint8_t *want = mask_cards_rule(&m, MASK_LARGE);
	struct gpumap_session *session = NULL;
	struct gpumap_done done = { .status = 1 };
	void *memory = NULL;
	bool is_right = false;

	if (!EQ(gpumap_session_open(m.map, &opts, &session), 0))
		return false;
	EQ(gpumap_alloc(session, row, job.n, &memory), 0);
	EQ(gpumap_buffer_register_mask(session, name, &job.src_buffer, NULL),
	   0);
	job.dst = memory;
	if (EQ(gpumap_submit(session, row, &job, 1), 0) &&
	    EQ(gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS),
	       1) &&
	    EQ(done.status, 0))
		is_right = memcmp(memory, want, MASK_LARGE) == 0;
	gpumap_session_close(session);
	return is_right;
}

static void what_is_there_stays(void)
{
	uint64_t version;

	EQ(mask_cards_publish(&m, "mask", MASK_LARGE, 2), 0);
	version = version_of("mask");
	OK(is_idle(0) && is_idle(1));
	OK(agent_logged(&m.agent, "event=worker_idle"));
	OK(mask_cards_right(&m, "mask", MASK_LARGE, 2));
	EQ(version_of("mask"), version);
	OK(jobs_find_it("mask", m.rows[0]));
	OK(is_idle(0));
	OK(jobs_find_it("mask", m.rows[0]));
	OK(is_idle(0));
	EQ(version_of("mask"), version);
	EQ(gpumap_mask_release(m.map, "mask"), 0);
}

/* NVML is asked about paths after the rows are READY. */
static void who_has_no_worker_is_copied_from(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t before = mask_cards_made(&m, m.rows[1], "peer");

	do {
		EQ(mask_cards_publish(&m, "one", MASK_LARGE, 1), 0);
		OK(is_idle(0));
		EQ(mask_cards_again(&m, "two", MASK_LARGE, 2), 0);
		OK(is_idle(1));
		EQ(story_device(m.map, m.rows[0]).worker_pid, 0);
		OK(mask_cards_right(&m, "two", MASK_LARGE, 2));
		EQ(gpumap_mask_release(m.map, "two"), 0);
		EQ(gpumap_mask_release(m.map, "one"), 0);
	} while (mask_cards_made(&m, m.rows[1], "peer") == before &&
		 tap_failures == 0 && story_now() < until);
	EQ(mask_cards_made(&m, m.rows[1], "peer"), before + 1);
}

TAP_CASE()
{
	if (!cuda_scene_make(&m.scene, "mixed.yaml", NULL))
		return tap_done();
	mask_cards_link(&m);
	cuda_scene_agent(&m.scene, &m.agent, "idle = 50ms",
			 "[host]\nrows = 1\n[masks]\nbytes = 256M\n");
	if (OK(agent_start(&m.agent)) && OK((m.map = story_attach(&m.agent))) &&
	    mask_cards_find(&m, 2)) {
		what_is_there_stays();
		who_has_no_worker_is_copied_from();
	}
	story_finish(&m.agent, m.map);
	agent_remove(&m.agent);
	cuda_scene_end(&m.scene);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A call that frees memory waits for what the card does, and the driver lets no
 * other call into the context meanwhile.  So the worker's loop waits with it,
 * for longer than a turn of the loop may take, and that is no hang.
 *
 * Completions are by events here, which the loop asks the driver for.
 */

#include "tests/support/cuda_agent.h"
#include "tests/support/cuda_session.h"

#define MIB (UINT64_C(1) << 20)

static struct agent agent;
static struct cuda_scene scene;

typedef uint64_t count_fn(struct cuda_scene *scene, uint32_t gpu);

static bool wait_for_more(count_fn *count, uint32_t gpu, uint64_t than)
{
	STORY_WAIT_WHILE(count(&scene, gpu) <= than);
	return count(&scene, gpu) > than;
}

/*
 * The memory is another session's, so that the free need not wait for the job
 * before it takes the lock.  A job of that session wakes the loop then, and the
 * loop asks for the end of the first job before it launches another.
 */
static void a_free_waits_behind_a_long_kernel(struct gpumap *map)
{
	uint64_t until = story_now() + 2 * STORY_LIMIT_NS, buffer;
	struct gpumap_device device = story_device(map, 0);
	uint32_t gpu = cuda_scene_gpu(&scene, &device);
	struct side busy, owner;
	uint64_t n;

	if (!OK(open_side(map, &busy, 0)) || !OK(works(&busy, 1)) ||
	    !OK(open_side(map, &owner, 0)) || !OK(works(&owner, 1)) ||
	    !EQ(gpumap_buffer_alloc(owner.session, 0, 64 * MIB, 0, until,
				    &buffer),
		0))
		return;
	n = cuda_scene_launches(&scene, gpu);
	cuda_scene_add(&scene, "row %u: launches take 8000 ms", gpu);
	EQ(submit(&busy, 1, 2), 0);
	OK(wait_for_more(cuda_scene_launches, gpu, n));
	n = cuda_scene_locks(&scene, gpu);
	EQ(gpumap_buffer_free(owner.session, buffer), 0);
	OK(wait_for_more(cuda_scene_locks, gpu, n));
	EQ(submit(&owner, 1, 3), 0);
	EQ(collect(&busy, 1).done, 1);
	cuda_scene_mend(&scene);
	EQ(collect(&owner, 1).done, 1);
	close_side(&busy);
	close_side(&owner);
	device = story_device(map, 0);
	EQ(device.restarts, 0);
	OK(!agent_logged(&agent, "event=worker_killed"));
}

TAP_CASE()
{
	struct gpumap *map;

	if (!cuda_scene_make(&scene, "mixed.yaml", "attribute 122 is 0"))
		return tap_done();
	cuda_scene_agent(&scene, &agent, "", "[host]\nenabled = no\n");
	if (OK(agent_start(&agent))) {
		map = story_attach(&agent);
		a_free_waits_behind_a_long_kernel(map);
		story_finish(&agent, map);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}

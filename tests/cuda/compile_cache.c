/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Code that the driver compiled is kept, so that the next worker starts without
 * compiling: in a folder of the state directory, or in the one that cache in
 * [cuda] names.  The stand-in keeps a file there.  A worker that runs programs
 * has none: a program could leave there what another user's worker loads.
 */

#include <sys/stat.h>

#include "tests/support/cuda_agent.h"
#include "tests/support/cuda_session.h"

static struct agent agent;
static struct cuda_scene scene;

/* A worker has compiled its operators. */
static bool run_a_worker(const char *cuda, uint32_t flags)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = flags };
	struct gpumap *map;
	struct side side;
	bool good;

	cuda_scene_agent(&scene, &agent, cuda,
			 "[host]\nenabled = no\n"
			 "[programs]\npolicy = any\n");
	if (!OK(agent_start(&agent)))
		return false;
	map = story_attach(&agent);
	good = OK(map) && OK(open_side_opts(map, &side, 0, &opts)) &&
	       OK(works(&side, 1));
	if (good)
		close_side(&side);
	story_finish(&agent, map);
	return good;
}

static void it_is_in_the_state_directory(void)
{
	char path[256];
	struct stat st;

	if (!run_a_worker("", 0))
		return;
	snprintf(path, sizeof(path), "%s/cuda-cache", agent.state);
	EQ(stat(path, &st), 0);
	EQ(st.st_mode & 07777, 0700);
	OK(geteuid() != 0 || st.st_uid != 0);
	snprintf(path, sizeof(path), "%s/cuda-cache/index", agent.state);
	EQ(stat(path, &st), 0);
	OK(geteuid() != 0 || st.st_uid != 0);
	unlink(path);
}

static void programs_have_none(void)
{
	char path[256];
	struct stat st;

	if (!run_a_worker("", GPUMAP_SESSION_PROGRAMS))
		return;
	OK(agent_logged(&agent, "programs_of="));
	snprintf(path, sizeof(path), "%s/cuda-cache/index", agent.state);
	EQ(stat(path, &st), -1);
}

static void the_administrator_may_name_another(void)
{
	char folder[96], index[128], path[256], text[128];
	struct stat st;

	snprintf(folder, sizeof(folder), "/tmp/gpumap-cache.%d", (int)getpid());
	snprintf(index, sizeof(index), "%s/index", folder);
	snprintf(text, sizeof(text), "cache = %s\n", folder);
	EQ(mkdir(folder, 0755), 0);
	EQ(chmod(folder, 0777), 0);
	if (run_a_worker(text, 0)) {
		EQ(stat(index, &st), 0);
		snprintf(path, sizeof(path), "%s/cuda-cache/index",
			 agent.state);
		EQ(stat(path, &st), -1);
	}
	unlink(index);
	EQ(rmdir(folder), 0);
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return tap_done();
	it_is_in_the_state_directory();
	programs_have_none();
	the_administrator_may_name_another();
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Code that the driver compiled is kept, so that the next worker starts without
 * compiling: in a folder of the state directory, or in the one that cache in
 * [cuda] names.  The stand-in keeps a file there.
 */

#include <sys/stat.h>

#include "tests/support/cuda_agent.h"
#include "tests/support/cuda_session.h"

static struct agent agent;
static struct cuda_scene scene;

/* A worker has compiled its operators. */
static bool run_a_worker(const char *cuda)
{
	struct gpumap *map;
	struct side side;
	bool good;

	cuda_scene_agent(&scene, &agent, cuda, "[host]\nenabled = no\n");
	if (!OK(agent_start(&agent)))
		return false;
	map = story_attach(&agent);
	good = OK(map) && OK(open_side(map, &side, 0)) && OK(works(&side, 1));
	if (good)
		close_side(&side);
	story_finish(&agent, map);
	return good;
}

static void it_is_in_the_state_directory(void)
{
	char path[256];
	struct stat st;

	if (!run_a_worker(""))
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

static void the_administrator_may_name_another(void)
{
	char folder[96], index[128], path[256], text[128];
	struct stat st;

	snprintf(folder, sizeof(folder), "/tmp/gpumap-cache.%d", (int)getpid());
	snprintf(index, sizeof(index), "%s/index", folder);
	snprintf(text, sizeof(text), "cache = %s\n", folder);
	EQ(mkdir(folder, 0755), 0);
	EQ(chmod(folder, 0777), 0);
	if (run_a_worker(text)) {
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
	the_administrator_may_name_another();
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}

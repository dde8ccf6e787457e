/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The nodes of a cluster are published while a layer map waits for its file to
 * be on the disk: gpumap-sync has one thread, and a lease to keep.
 */

#include <errno.h>
#include <sys/wait.h>

#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/story.h"

#define TRIES 50

static struct agent agent;
static struct gpumap *map;

static int publish(uint32_t content)
{
	const struct cluster_nodes nodes = { 3, 1, 1, content };

	return cluster_nodes_publish(map, &nodes, GPUMAP_CLUSTER_HEARD);
}

static bool has_map(const char *name)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };

	return gpumap_layers_read(map, name, &layers, NULL, NULL, 0, NULL, 0) ==
	       0;
}

/* The file of the map has been created, and is not named yet. */
static bool is_in_hand(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/new", agent.state);
	return access(path, F_OK) == 0;
}

/* Returns whether nodes were published after the map's file was begun and
 * before the map was. */
static bool overtakes(int try)
{
	bool before = false;
	char name[16];
	int status = -1;
	pid_t pid;

	snprintf(name, sizeof(name), "m%d", try);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct gpumap_layers_request request = {
			.size = sizeof(request), .name = name, .spec = "0:5"
		};
		struct gpumap *own = story_attach(&agent);

		_exit(own ? -gpumap_layers_publish(own, &request) : 255);
	}
	STORY_WAIT_WHILE(!is_in_hand() && !has_map(name));
	if (!has_map(name)) {
		EQ(publish((uint32_t)try + 2), 0);
		before = !has_map(name);
	}
	waitpid(pid, &status, 0);
	EQ(status, 0);
	OK(has_map(name));
	return before;
}

TAP_CASE()
{
	bool is_over = false;

	if (!tap_has_points()) {
		SKIP(1, "needs --enable-testpoints");
		return tap_done();
	}
	agent_make(&agent, NULL);
	agent.env[0] = "GM_POINT=state_created:pause";
	if (OK(agent_start_until(&agent, "open")) &&
	    OK((map = story_attach(&agent)))) {
		/* Not the first time: both objects need a place. */
		OK(!overtakes(0));
		for (int try = 1; try < TRIES && !is_over; try++)
			is_over = overtakes(try);
		OK(is_over);
	}
	story_finish(&agent, map);
	return tap_done();
}

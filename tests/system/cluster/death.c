/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent is killed while it publishes a cluster: readers and the next agent
 * find the one before or the new one, whole, and never a segment to retire.
 */

#include <errno.h>

#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/story.h"

static const char *const points[] = {
	"publish_reserved", "publish_filled",     "publish_key",
	"publish_visible",  "generation_visible", "control_replied",
};

#define POINTS (int)(sizeof(points) / sizeof(points[0]))

static struct agent agent;
static struct gpumap *map;
static uint32_t last; /* content of the round before */

static struct cluster_nodes nodes_of(uint32_t content)
{
	return (struct cluster_nodes){ 10 + content % 7, content % 5,
				       content % 3, content };
}

static int publish(uint32_t content)
{
	const struct cluster_nodes nodes = nodes_of(content);

	return cluster_nodes_publish(map, &nodes, GPUMAP_CLUSTER_HEARD);
}

static int check(uint32_t content)
{
	const struct cluster_nodes nodes = nodes_of(content);

	return cluster_nodes_check(map, &nodes);
}

/* The content that is there, or 0. */
static uint32_t content_of(void)
{
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	uint32_t cursor = 0;

	return gpumap_cluster_next_node(map, &cursor, &node) == 1
		       ? (uint32_t)node.epoch
		       : 0;
}

static bool start(void)
{
	if (!agent_start_until(&agent, "open"))
		return false;
	map = story_attach(&agent);
	return map != NULL;
}

/* Publish until the agent dies at the point, the @nth time that it comes there.
 * Returns the last content that was answered. */
static uint32_t publish_until_death(const char *point, int nth,
				    uint32_t content)
{
	static char env[64];
	int ret = 0;

	snprintf(env, sizeof(env), "GM_POINT=%s:kill:%d", point, nth);
	agent.env[0] = env;
	if (!OK(start()))
		return content;
	while (ret == 0 && story_lives(agent.pid))
		ret = publish(++content);
	EQ(agent_wait(&agent), -SIGKILL);
	agent.env[0] = NULL;
	return ret == 0 ? content : content - 1;
}

static void one_round(int round)
{
	const char *point = points[round % POINTS];
	/* Rows are published by the same steps, at the start. */
	uint32_t answered =
		publish_until_death(point, 6 + round / POINTS, last);
	uint32_t found = content_of();

	NOTE("%s: %u was answered, %u is there", point, answered, found);
	OK(found == answered || found == answered + 1);
	if (found != 0)
		EQ(check(found), 0);
	gpumap_detach(map);
	if (!start()) {
		OK(!"the next agent starts");
		return;
	}
	EQ(agent_count_log(&agent, "segment_retired"), 0);
	EQ(content_of(), found);
	if (found != 0)
		EQ(check(found), 0);
	last = found + 1;
	EQ(publish(last), 0);
	EQ(check(last), 0);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
}

TAP_CASE()
{
	int rounds = story_rounds();

	if (!tap_has_points()) {
		SKIP(1, "needs --enable-testpoints");
		return tap_done();
	}
	agent_make(&agent, NULL);
	for (int round = 0; round < rounds; round++)
		one_round(round);
	agent_remove(&agent);
	return tap_done();
}

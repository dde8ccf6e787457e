/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * An attachment whose map was retired: the agent of the new map answers on the
 * same socket, but each request says -ESTALE, because rows and blocks of the
 * new map are not those of the old one.
 */

#include "tests/support/story.h"

static struct agent agent;

static int publish(struct gpumap *map, const char *spec)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = "pm",
						 .spec = spec };

	return gpumap_layers_publish(map, &request);
}

static uint32_t state_of(const struct gpumap *map)
{
	struct gpumap_health health = { .size = sizeof(health) };

	EQ(gpumap_health(map, &health), 0);
	return health.state;
}

static bool says_attach(const struct gpumap *map)
{
	return strstr(gpumap_refusal(map), "attach again") != NULL;
}

static void requests_say_so(struct gpumap *old)
{
	struct gpumap_session *session = NULL;
	struct gpumap_view view;
	uint64_t pin;

	EQ(gpumap_layers_pin(old, "pm", &view, &pin), -ESTALE);
	OK(says_attach(old));
	EQ(gpumap_session_open(old, NULL, &session), -ESTALE);
	OK(says_attach(old));
	EQ(publish(old, "0:3"), -ESTALE);
	EQ(gpumap_session_list(old, NULL, 0), -ESTALE);
	EQ(gpumap_device_drain(old, 0), -ESTALE);
	EQ(state_of(old), GPUMAP_RETIRED);
	EQ(gpumap_wait_change(old, gpumap_generation(old), GPUMAP_NO_DEADLINE),
	   -ESTALE);
	EQ(gpumap_layers_view(old, "pm", &view), 0);
	EQ(view.n, 5);
	EQ(gpumap_view_refresh(old, &view), -ESTALE);
}

/* The agent starts again with a new segment, after the old one was taken away
 * by its own option, or by a stranger to it who removed the file. */
static void attachment_of_an_old_map(bool by_agent)
{
	struct gpumap *old, *other, *next;

	agent_make(&agent, "[host]\nrows = 1\n");
	if (!OK(agent_start(&agent)) || !OK((old = story_attach(&agent))) ||
	    !OK((other = story_attach(&agent))))
		return;
	EQ(publish(old, "0:5"), 0); /* this one is connected, @other is not */
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (by_agent)
		EQ(agent_run(&agent, "--remove"), 0);
	else
		EQ(unlink(agent.segment), 0);
	OK(agent_start(&agent));
	next = story_attach(&agent);
	if (OK(next != NULL)) {
		EQ(publish(next, "0:9"), 0);
		EQ(state_of(next), GPUMAP_READY);
		requests_say_so(old);
		requests_say_so(other);
	}
	gpumap_detach(next);
	gpumap_detach(other);
	gpumap_detach(old);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
}

/* An agent that goes on with the same segment is the map's own. */
static void attachment_of_an_adopted_map(void)
{
	struct gpumap_session *session = NULL;
	struct gpumap *map;

	agent_make(&agent, "[host]\nrows = 1\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return;
	EQ(publish(map, "0:5"), 0);
	agent_kill(&agent, SIGKILL);
	OK(agent_start(&agent));
	EQ(publish(map, "0:9"), 0);
	EQ(gpumap_session_open(map, NULL, &session), 0);
	EQ(state_of(map), GPUMAP_READY);
	gpumap_session_close(session);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
}

TAP_CASE()
{
	attachment_of_an_old_map(true);
	attachment_of_an_old_map(false);
	attachment_of_an_adopted_map();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * scripted_probe_agent - an agent whose cards are a puppet's: started with some
 * of them, looked at by their numbers, and ended.
 */
#ifndef GM_TEST_SUPPORT_SCRIPTED_PROBE_AGENT_H
#define GM_TEST_SUPPORT_SCRIPTED_PROBE_AGENT_H

#include "tests/support/ctl.h"
#include "tests/support/scripted_probe.h"

#define CONFIG                                                               \
	"[limits]\nsessions = 64\nconnections = 64\n"                        \
	"[socket]\nmode = 0666\n[agent]\nrefresh = 50ms\n[cuda]\nenabled = " \
	"%s\n"                                                               \
	"list-limit = %s\npass-environment = GPUMAP_PUPPET\n"

static inline void configure(const char *enabled, const char *limit)
{
	char config[256];

	snprintf(config, sizeof(config), CONFIG, enabled, limit);
	agent_configure(&agent, config);
	puppet_for(&agent);
}

/* The same, and how long until a driver is looked for again. */
static inline void configure_looking(const char *again)
{
	char config[320];

	snprintf(config, sizeof(config), CONFIG "look-again = %s\n", "auto",
		 "30s", again);
	agent_configure(&agent, config);
	puppet_for(&agent);
}

static inline struct gpumap_device card_of(const struct gpumap *map,
					   uint32_t card)
{
	int row = puppet_row(map, card);

	return story_device(map, row >= 0 ? (uint32_t)row : 0);
}

/* Start with these cards.  Returns the probe. */
static inline int start_with(const uint32_t *cards, size_t n)
{
	struct gm_probe_wire wires[8];
	int probe;

	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	OK(probe >= 0);
	for (size_t i = 0; i < n; i++)
		wires[i] = puppet_card(cards[i]);
	puppet_say_all(probe, wires, n);
	if (!OK(agent_wait_log(&agent, "event=ready ")))
		agent_show_log(&agent);
	return probe;
}

static inline void end(int probe, struct gpumap *map)
{
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	close(probe);
	EQ(agent_run(&agent, "--remove"), 0);
}

/* Returns whether there can be any of it. */
static inline bool puppet_scene_make(void)
{
	if (!puppet_set())
		return false;
	agent_make(&agent, NULL);
	return true;
}

#endif

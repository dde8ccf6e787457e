/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumap-exporter without an agent, with one that comes, hangs, dies,
 * comes again, and gets another map: it never ends by that.
 */

#include "tests/support/ctl.h"
#include "tests/support/exporter.h"
#include "tests/support/process.h"
#include "tests/support/story.h"

static struct exporter exporter, asking;

/* Scrape until gpumap_up has this value. */
static bool turns(double up)
{
	for (int ms = 0; ms < AGENT_LIMIT_MS; ms += 20) {
		double is;

		if (!exporter_scrape(&exporter))
			return false;
		is = EXPORTER_VALUE("gpumap_up");
		if (is == up)
			return true;
		poll(NULL, 0, 20);
	}
	return false;
}

static void before_any_agent(void)
{
	double ignored;

	OK(exporter_scrape(&exporter));
	OK(EXPORTER_VALUE("gpumap_up") == 0);
	EQ(exporter_find(&ignored, "gpumap_build_info", NULL), 1);
	EQ(exporter_find(&ignored, "gpumap_device_info", NULL), 0);
	EQ(exporter_ask(&exporter, "GET", "/metrics", EXPORTER_OPENMETRICS),
	   200);
	OK(strcmp(out + strlen(out) - 6, "# EOF\n") == 0);
}

static void a_silent_agent_is_down(void)
{
	double before, ignored;

	OK(process_stop(agent.pid));
	OK(turns(0));
	before = EXPORTER_VALUE("gpumap_heartbeat_age_seconds");
	OK(before >= 2);
	/* The facts about the rows stay. */
	EQ(exporter_find(&ignored, "gpumap_device_info", NULL), 1);
	OK(exporter_scrape(&asking));
	OK(EXPORTER_VALUE("gpumap_usage_up") == 0);
	OK(EXPORTER_VALUE("gpumap_up") == 0);
	OK(EXPORTER_VALUE("gpumap_heartbeat_age_seconds") > before);
	kill(agent.pid, SIGCONT);
	OK(turns(1));
	OK(exporter_scrape(&asking));
	OK(EXPORTER_VALUE("gpumap_usage_up") == 1);
}

static void a_dead_agent_is_down(void)
{
	double ignored;

	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	OK(turns(0));
	EQ(exporter_find(&ignored, "gpumap_device_info", NULL), 1);
	OK(EXPORTER_VALUE("gpumap_agent_starts_total") == 1);
	OK(exporter_scrape(&asking));
	OK(EXPORTER_VALUE("gpumap_usage_up") == 0);
	if (!OK(agent_start(&agent)))
		return;
	OK(turns(1));
	OK(EXPORTER_VALUE("gpumap_agent_starts_total") == 2);
	OK(exporter_scrape(&asking));
	OK(EXPORTER_VALUE("gpumap_usage_up") == 1);
}

/* The map goes, and one of another size comes. */
static void another_map_is_found(void)
{
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(agent_run(&agent, "--remove"), 0);
	OK(turns(0));
	agent_configure(&agent, "[host]\nrows = 1\n[segment]\n"
				"size = 32M\n");
	if (!OK(agent_start(&agent)))
		return;
	OK(turns(1));
	OK(EXPORTER_VALUE("gpumap_map_bytes") == 32.0 * MIB);
	OK(EXPORTER_VALUE("gpumap_agent_starts_total") == 1);
	OK(exporter_scrape(&asking));
	OK(EXPORTER_VALUE("gpumap_usage_up") == 1);
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 1\n");
	if (!exporter_start(&exporter, NULL) ||
	    !exporter_start(&asking, "--usage"))
		return tap_done();
	before_any_agent();
	if (!OK(agent_start(&agent)))
		return tap_done();
	OK(turns(1));
	a_silent_agent_is_down();
	a_dead_agent_is_down();
	another_map_is_found();
	exporter_stop(&exporter);
	exporter_stop(&asking);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	return tap_done();
}

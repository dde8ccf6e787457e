/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Checks gpumapctl complete: names of what the map has, and silence where there
 * is none. */

#include <signal.h>

#include "tests/support/ctl.h"
#include "tests/support/story.h"

#define CONFIG                                            \
	"[host]\nrows = 2\n[map model]\nspec = 0:2;1:3\n" \
	"[map more]\nspec = 0:1\n"

/* Complete the line of these words, of this instance.  Returns its exit status,
 * or -1 if it complained. */
static int complete(const char *const words[])
{
	const char *argv[WORDS_MAX + 8] = {
		ctl_program(),   "complete",   "--",
		"gpumapctl",     "--instance", agent.instance,
		"--runtime-dir", agent.dir
	};
	int ret;

	for (int i = 0; i < WORDS_MAX && words[i] != NULL; i++)
		argv[8 + i] = words[i];
	ret = run(argv);
	return err[0] == '\0' ? ret : -1;
}

#define COMPLETE(...) complete(WORDS(__VA_ARGS__))

static void maps_masks_and_meshes_have_names(void)
{
	EQ(CTL("mask", "publish", "prefix", "--kind", "causal", "--size", "8",
	       "--map", "model"),
	   DONE);
	EQ(CTL("mesh", "publish", "pair", "--topology", "tensor=2"), DONE);
	EQ(COMPLETE("layers", ""), DONE);
	STR(out, "words\nmodel\t\nmore\t\n");
	EQ(COMPLETE("export", "mod"), DONE);
	STR(out, "words\nmodel\t\n");
	EQ(COMPLETE("load", "x", "--map=mo"), DONE);
	STR(out, "words\n--map=model\t\n--map=more\t\n");
	EQ(COMPLETE("run", "--map", ""), DONE);
	STR(out, "words\nmodel\t\nmore\t\n");
	EQ(COMPLETE("mask", "show", ""), DONE);
	STR(out, "words\nprefix\t\n");
	EQ(COMPLETE("mesh", "release", "p"), DONE);
	STR(out, "words\npair\t\n");
	EQ(COMPLETE("collective", ""), DONE);
	STR(out, "words\npair\t\n");
}

static void rows_are_lists(struct gpumap *map)
{
	struct gpumap_device device = story_device(map, 1);
	char wanted[128];

	snprintf(wanted, sizeof(wanted), "words\n1\t%s\n", device.name);
	EQ(COMPLETE("drain", "1"), DONE);
	STR(out, wanted);
	snprintf(wanted, sizeof(wanted), "words\n0,1\t%s\n", device.name);
	EQ(COMPLETE("scatter", "--rows", "0,1"), DONE);
	STR(out, wanted);
	snprintf(wanted, sizeof(wanted), "words\n--rows=0,1\t%s\n",
		 device.name);
	EQ(COMPLETE("scatter", "--rows=0,1"), DONE);
	STR(out, wanted);
}

static void stopped_agent_delays_nothing(void)
{
	OK(process_stop(agent.pid));
	EQ(COMPLETE("layers", "mo"), DONE);
	STR(out, "words\nmodel\t\nmore\t\n");
	kill(agent.pid, SIGCONT);
}

static void nothing_is_said_without_an_agent(void)
{
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	EQ(COMPLETE("--instance", "no-such", "layers", ""), DONE);
	STR(out, "words\n");
	EQ(COMPLETE("--instance", "no-such", "drain", ""), DONE);
	STR(out, "words\n");
	EQ(run(WORDS(ctl_program(), "complete", "gpumapctl")), DONE);
	STR(out, "");
}

TAP_CASE()
{
	struct gpumap *map;

	if (!ctl_start(CONFIG))
		return tap_done();
	map = story_attach(&agent);
	maps_masks_and_meshes_have_names();
	rows_are_lists(map);
	stopped_agent_delays_nothing();
	gpumap_detach(map);
	nothing_is_said_without_an_agent();
	agent_remove(&agent);
	return tap_done();
}

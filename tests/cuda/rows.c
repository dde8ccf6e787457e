/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Cards that a probe lists become rows: in which order and when, which row is
 * there without a probe, and that facts that came before a card wait for it.
 */

#include <signal.h>
#include <sys/resource.h>

#include "tests/support/scripted_probe_agent.h"

#define ABILITIES                                                           \
	(GPUMAP_DEVICE_SERVES | GPUMAP_DEVICE_CARD | GPUMAP_DEVICE_MAPPED | \
	 GPUMAP_DEVICE_EXPORTS | GPUMAP_DEVICE_CLIQUES)

/* ---- order ------------------------------------------------------------- */

static void rows_follow_the_bus(void)
{
	struct gm_probe_wire split = puppet_card(2), part = puppet_part(9, 2),
			     other = puppet_part(8, 2);
	struct gpumap_device d;
	struct gpumap *map;
	int probe;

	configure("auto", "30s");
	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	split.device.facts.flags |= GPUMAP_DEVICE_MIG;
	split.health = GM_PROBE_SPLIT;
	puppet_send(probe, &(struct gm_probe_wire[]){ puppet_card(5) }[0]);
	puppet_send(probe, &split);
	puppet_send(probe, &(struct gm_probe_wire[]){ puppet_card(1) }[0]);
	puppet_send(probe, &part);
	puppet_send(probe, &other);
	puppet_say_moving(probe, 9, GM_PROBE_USABLE, "");
	puppet_say_moving(probe, 8, GM_PROBE_USABLE, "");
	puppet_say_moving(probe, 2, GM_PROBE_SPLIT, "");
	puppet_say_moving(probe, 5, GM_PROBE_USABLE, "");
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
	OK(agent_wait_log(&agent, "event=ready "));
	OK(agent_logged(&agent, "event=cuda_listed devices=5"));
	map = story_attach(&agent);
	EQ(gpumap_device_count(map), 6);
	EQ(puppet_row(map, 1), 0);
	EQ(puppet_row(map, 2), 1);
	EQ(puppet_row(map, 8), 2);
	EQ(puppet_row(map, 9), 3);
	EQ(puppet_row(map, 5), 4);
	d = story_device(map, 0);
	STR(d.name, "Puppet 1");
	EQ(d.kind, GPUMAP_DEVICE_CUDA);
	EQ(d.flags & ABILITIES, ABILITIES & ~GPUMAP_DEVICE_MAPPED);
	EQ(d.state, GPUMAP_DEVICE_READY);
	EQ(d.worker_pid, 0);
	EQ(d.numa_node, -1);
	EQ(d.xids, 0);
	d = story_device(map, 1);
	EQ(d.state, GPUMAP_DEVICE_FAILED);
	STR(d.reason, "split: its MIG instances are used");
	OK((d.flags & GPUMAP_DEVICE_MIG) != 0);
	/* Its instances have no way to other cards. */
	EQ(story_device(map, 2).flags & ABILITIES,
	   ABILITIES & ~(GPUMAP_DEVICE_MAPPED | GPUMAP_DEVICE_CLIQUES));
	d = story_device(map, 5);
	EQ(d.kind, GPUMAP_DEVICE_HOST);
	EQ(d.recovery, UINT32_MAX);
	/* Score by speed; much free memory does not make it faster than
	 * cards. */
	OK(d.units > 0 && d.score == d.units);
	end(probe, map);
}

static void what_comes_late_comes_last(void)
{
	struct gm_probe_wire late = puppet_card(2);
	struct gpumap *map;
	int probe;

	configure("auto", "50ms");
	agent_spawn(&agent, NULL);
	OK(agent_wait_log(&agent, "event=cuda_slow devices=0"));
	OK(agent_wait_log(&agent, "event=ready "));
	probe = puppet_accept();
	map = story_attach(&agent);
	EQ(gpumap_device_count(map), 1);
	puppet_say(probe, &late);
	OK(puppet_becomes(map, 2, GPUMAP_DEVICE_READY));
	EQ(puppet_row(map, 2), 1);
	late = puppet_card(1);
	puppet_say(probe, &late);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	EQ(puppet_row(map, 1), 2);
	OK(agent_logged(&agent, "event=row_added row=2 device=\"GPU-c0"));
	gpumap_detach(map);

	/* And keeps its row, although it comes first this time. */
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	close(probe);
	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 1, 3 }, 2);
	map = story_attach(&agent);
	EQ(puppet_row(map, 1), 2);
	EQ(puppet_row(map, 3), 3);
	EQ(card_of(map, 2).state, GPUMAP_DEVICE_LOST);
	end(probe, map);
}

/* Late and of no use: it says so, and until the probe says otherwise. */
static void a_late_card_may_be_of_no_use(void)
{
	struct gm_probe_wire late = puppet_card(1), odd = puppet_card(4);
	struct gpumap *map;
	int probe;

	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 3 }, 1);
	map = story_attach(&agent);
	/* No uuid, and a part of itself: no probe of ours says that. */
	memcpy(odd.device.parent, odd.uuid, sizeof(odd.uuid));
	puppet_say(probe, &odd);
	memset(odd.uuid, 0, sizeof(odd.uuid));
	puppet_say(probe, &odd);

	late.health = GM_PROBE_FAILED;
	snprintf(late.text, sizeof(late.text), "does not answer");
	puppet_say(probe, &late);
	OK(agent_wait_log(&agent, "event=row_added row=2 "));
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_FAILED));
	/* The probe's next word of another card is heard after all that. */
	puppet_say_moving(probe, 3, GM_PROBE_FAILED, "");
	OK(puppet_becomes(map, 3, GPUMAP_DEVICE_FAILED));
	EQ(card_of(map, 1).state, GPUMAP_DEVICE_FAILED);
	STR(card_of(map, 1).reason, "does not answer");
	EQ(gpumap_device_count(map), 3);
	puppet_say_moving(probe, 1, GM_PROBE_USABLE, "");
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	end(probe, map);
}

/* ---- absence ----------------------------------------------------------- */

static void absence_is_no_fault(void)
{
	struct gpumap *map;

	configure("auto", "30s");
	agent_spawn(&agent, NULL);
	puppet_census(GM_PROBE_ABSENT, "no libcuda.so.1");
	OK(agent_wait_log(&agent, "event=ready "));
	OK(!agent_logged(&agent, "level=error"));
	OK(!agent_logged(&agent, "level=warning"));
	map = story_attach(&agent);
	EQ(gpumap_device_count(map), 1);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(agent_run(&agent, "--remove"), 0);
}

/* How often this is in the agent's log. */
static int times(const char *event)
{
	char line[512];
	FILE *log = fopen(agent.log, "re");
	int n = 0;

	while (log && fgets(line, sizeof(line), log))
		n += strstr(line, event) != NULL;
	if (log)
		fclose(log);
	return n;
}

static void find_nothing(void)
{
	puppet_census(GM_PROBE_ABSENT, "no libcuda.so.1");
}

/* A driver that is installed later, or is loaded late. */
static void what_was_absent_is_looked_for_again(const char *again, int signal)
{
	struct gm_probe_wire card = puppet_card(1);
	int absent = times("event=cuda_absent"), probe;
	int started = times("event=probe_started");
	struct gpumap *map;

	configure_looking(again);
	agent_spawn(&agent, NULL);
	find_nothing();
	OK(agent_wait_log(&agent, "event=ready "));
	for (int i = 0; i < 3 && !signal; i++)
		find_nothing();
	OK(!agent_logged(&agent, "level=warning"));
	if (signal)
		EQ(kill(agent.pid, signal), 0);
	probe = puppet_accept();
	if (!OK(probe >= 0))
		return;
	EQ(times("event=cuda_absent"), absent + 1);
	EQ(times("event=probe_started"), started + 1);
	puppet_say(probe, &card);
	map = story_attach(&agent);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	EQ(puppet_row(map, 1), 1);
	OK(agent_wait_log(&agent, "event=driver_came "));
	end(probe, map);
}

static void a_fault_is_told(void)
{
	struct gm_probe_wire card = puppet_card(1);
	struct gpumap *map;
	int probe;

	agent_spawn(&agent, NULL);
	puppet_census(GM_PROBE_FAILED, "NVML 18: LIB_RM_MISMATCH");
	OK(agent_wait_log(&agent, "event=ready "));
	OK(agent_logged(&agent, "level=error event=cuda_broken "
				"why=\"NVML 18: LIB_RM_MISMATCH\""));

	/* An administrator has repaired it. */
	probe = puppet_accept();
	puppet_say(probe, &card);
	map = story_attach(&agent);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	EQ(puppet_row(map, 1), 1);
	end(probe, map);
}

static void what_is_required_is_required(void)
{
	static const struct {
		uint32_t health;
		const char *text;
		int status;
	} words[] = {
		{ GM_PROBE_ABSENT, "no driver", 2 },
		{ GM_PROBE_FAILED, "NVML 999", 1 },
	};

	configure("required", "30s");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		agent_spawn(&agent, NULL);
		puppet_census(words[i].health, words[i].text);
		EQ(agent_wait(&agent), words[i].status);
		OK(agent_logged(&agent, "cuda.enabled = required, and there "
					"is no GPU: "));
		OK(agent_logged(&agent, words[i].text));
	}
	agent.probe = "/nonexistent/gpumap-probe";
	EQ(agent_run(&agent, NULL), 1);
	OK(agent_logged(&agent, "cannot start /nonexistent/gpumap-probe"));
	agent_run(&agent, "--remove");
}

static void a_signal_ends_the_waiting(void)
{
	int probe;

	configure("auto", "3600s");
	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	EQ(agent_kill(&agent, SIGTERM), 0);
	close(probe);
	agent_run(&agent, "--remove");
}

/* ---- maps -------------------------------------------------------------- */

static void a_map_waits_for_its_row(void)
{
	struct gm_probe_wire card = puppet_card(4);
	struct gpumap *map;
	int probe;

	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 4 }, 1);
	if (!EQ(CTL("publish", "m", "--spec", "0:2", "--layers", "2"), DONE))
		NOTE("%s%s", out, err);
	EQ(agent_kill(&agent, SIGTERM), 0);
	close(probe);
	EQ(agent_run(&agent, "--remove"), 0);

	probe = start_with((uint32_t[]){ 9 }, 1);
	OK(agent_logged(&agent, "event=state_waits"));
	EQ(CTL("layers", "m"), FAILED);
	map = story_attach(&agent);
	puppet_say(probe, &card);
	OK(puppet_becomes(map, 4, GPUMAP_DEVICE_READY));
	OK(agent_wait_log(&agent, "event=restored kind=layers name=m "));
	EQ(CTL("layers", "m"), DONE);
	EQ(puppet_row(map, 4), 2);
	EQ(CTL("release", "m"), DONE);
	end(probe, map);
}

/* ---- descriptors --------------------------------------------------------- */

/* The log's line at the start counted fewer cards: each takes some descriptors,
 * and so does every mask's replica there.  Lowers this process's own limit for
 * good. */
static void a_late_card_takes_descriptors(void)
{
	struct rlimit few = { 900, 900 };
	struct gm_probe_wire late = puppet_card(1);
	uint64_t until = story_now() + STORY_LIMIT_NS, before;
	struct gpumap *map;
	int probe;

	if (!EQ(setrlimit(RLIMIT_NOFILE, &few), 0))
		return;
	configure("auto", "30s");
	probe = start_with((uint32_t[]){ 3 }, 1);
	map = story_attach(&agent);
	before = agent_logged_number(&agent, "few_descriptors", "needed");
	OK(before != UINT64_MAX);
	puppet_say(probe, &late);
	OK(puppet_becomes(map, 1, GPUMAP_DEVICE_READY));
	while (agent_count_log(&agent, "event=few_descriptors ") < 2 &&
	       story_now() < until)
		story_nap(5000);
	OK(agent_logged_number(&agent, "few_descriptors", "needed") > before);
	end(probe, map);
}

TAP_CASE()
{
	if (!puppet_scene_make())
		return 99;
	rows_follow_the_bus();
	what_comes_late_comes_last();
	a_late_card_may_be_of_no_use();
	absence_is_no_fault();
	what_was_absent_is_looked_for_again("20ms", 0);
	what_was_absent_is_looked_for_again("3600s", SIGHUP);
	a_fault_is_told();
	what_is_required_is_required();
	a_signal_ends_the_waiting();
	a_map_waits_for_its_row();
	a_late_card_takes_descriptors();
	agent_remove(&agent);
	return tap_done();
}

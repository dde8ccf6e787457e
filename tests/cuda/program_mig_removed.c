/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A MIG instance that is destroyed while a session has programs run on it: its
 * row becomes another device's only after that session has left.
 *
 * The test itself writes the probe's notes about the instances.  For the driver
 * the first instance is one of the stand-in's cards, or no worker would start
 * on it; no client asks for the others.
 */

#include "tests/support/cuda_agent.h"
#include "tests/support/scripted_probe.h"

#define CARD    1u
#define FIRST   0u
#define SECTION "[socket]\nmode = 0666\n[agent]\nrefresh = 50ms\n"

static struct cuda_scene scene;
static struct agent agent;
static struct gpumap *map;
static int probe;

/* ---- the card ---------------------------------------------------------- */

static struct gm_probe_wire part_of(uint32_t part)
{
	struct gm_probe_wire wire = puppet_part(2, CARD);
	const struct fake_gpu *gpu = &scene.hw.board->gpus[0];

	if (part == FIRST) {
		memcpy(wire.uuid, gpu->uuid, sizeof(wire.uuid));
		fake_uuid_print(gpu, wire.device.id);
	} else {
		memcpy(&wire.uuid[8], &part, sizeof(part));
		puppet_name(&wire);
	}
	snprintf(wire.device.name, sizeof(wire.device.name), "Part %u", part);
	return wire;
}

static int row_of(uint32_t part)
{
	struct gm_probe_wire wire = part_of(part);

	return gpumap_device_find(map, wire.uuid);
}

static bool becomes(uint32_t part, uint32_t state)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		int row = row_of(part);

		if (row >= 0 && story_device(map, (uint32_t)row).state == state)
			return true;
		story_nap(500);
	}
	return false;
}

static bool create(uint32_t part)
{
	struct gm_probe_wire wire = part_of(part);

	puppet_say(probe, &wire);
	return becomes(part, GPUMAP_DEVICE_READY);
}

static bool destroy(uint32_t part)
{
	struct gm_probe_wire was = part_of(part), wire = puppet_gone(&was);

	puppet_say(probe, &wire);
	return becomes(part, GPUMAP_DEVICE_LOST);
}

static bool begin(void)
{
	struct gm_probe_wire wires[] = { puppet_card(CARD), part_of(FIRST) };

	cuda_scene_agent(&scene, &agent,
			 "pass-environment = GPUMAP_PUPPET "
			 "GPUMAP_FAKE_HARDWARE GPUMAP_FAKE_KERNELS\n",
			 SECTION "[programs]\npolicy = any\n");
	agent.probe = puppet_program;
	agent.env[2] = puppet_named;
	agent.env[3] = NULL;
	agent_spawn(&agent, NULL);
	probe = puppet_accept();
	wires[0].device.facts.flags |= GPUMAP_DEVICE_MIG;
	wires[0].health = GM_PROBE_SPLIT;
	puppet_say_all(probe, wires, 2);
	if (!OK(agent_wait_log(&agent, "event=ready ")))
		agent_show_log(&agent);
	map = story_attach(&agent);
	return OK(map != NULL) && OK(becomes(FIRST, GPUMAP_DEVICE_READY));
}

/* ---- stories ----------------------------------------------------------- */

/* Instances come and go until one has this row. */
static bool is_reused(uint32_t part, int row)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (row_of(part) != row && story_now() < until) {
		story_nap(20000);
		if (!destroy(part) || !create(++part))
			return false;
	}
	return row_of(part) == row;
}

static struct gpumap_device_jobs jobs_of(int row)
{
	struct gpumap_device_jobs jobs = { .size = sizeof(jobs) };

	EQ(gpumap_device_jobs_read(map, (uint32_t)row, &jobs), 0);
	return jobs;
}

/* A job for the figures of the row. */
static void run_one(int row)
{
	const struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_session *session = NULL;

	EQ(gpumap_session_open(map, NULL, &session), 0);
	EQ(story_run(session, (uint32_t)row, &nop), 0);
	gpumap_session_close(session);
	while (jobs_of(row).ended == 0 && story_now() < until)
		story_nap(1000);
	EQ(jobs_of(row).ended, 1);
}

static void a_row_of_programs_is_not_anothers(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_PROGRAMS,
					    .arena_bytes = 65536 };
	struct gpumap_session *session = NULL;
	uint32_t part = FIRST;
	int row = row_of(FIRST);
	struct gpumap_device_jobs jobs;
	void *memory;

	run_one(row);
	EQ(gpumap_session_open(map, &opts, &session), 0);
	EQ(gpumap_alloc(session, (uint32_t)row, 64, &memory), 0);
	for (int i = 0; i < 4; i++) {
		OK(destroy(part));
		OK(create(++part));
		EQ(row_of(FIRST), row);
		OK(row_of(part) != row);
	}
	gpumap_session_close(session);
	EQ(jobs_of(row).ended, 1);
	OK(is_reused(part, row));
	jobs = jobs_of(row);
	EQ(jobs.ended + jobs.failed + jobs.ns, 0);
	for (uint32_t i = 0; i < GPUMAP_JOB_TIMES; i++)
		EQ(jobs.times[i], 0);
	EQ(row_of(FIRST), -ENODEV);
}

TAP_CASE()
{
	if (!puppet_set() || !cuda_scene_make(&scene, "mixed.yaml", NULL))
		return 99;
	if (begin()) {
		a_row_of_programs_is_not_anothers();
		story_finish(&agent, map);
		close(probe);
	}
	cuda_scene_end(&scene);
	agent_remove(&agent);
	return tap_done();
}

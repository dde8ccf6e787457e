/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The probe and its rows on stand-in cards: what the driver and NVML say ends
 * up in the device table, what befalls one card befalls no other, and a drained
 * card is open nowhere.
 */

#include <signal.h>

#include "tests/support/cuda_agent.h"

static struct cuda_scene scene;
static struct agent agent;

static bool becomes(const struct gpumap *map, uint32_t row, uint32_t state)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_device(map, row).state != state) {
		if (story_now() > until) {
			agent_show_log(&agent);
			return false;
		}
		story_nap(2000);
	}
	return true;
}

static void rows_are_what_the_cards_are(const struct gpumap *map)
{
	uint32_t n = scene.hw.board->n_gpus;
	uint64_t last = 0;

	EQ(gpumap_device_count(map), n + 1);
	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device d = story_device(map, row);
		uint32_t i = cuda_scene_gpu(&scene, &d);
		const struct fake_gpu *gpu = &scene.hw.board->gpus[i % n];
		uint64_t bus = (uint64_t)d.pci_domain << 32 | d.pci_bus;

		if (!OK(i < n))
			return;
		EQ(d.kind, GPUMAP_DEVICE_CUDA);
		EQ(d.state, GPUMAP_DEVICE_READY);
		STR(d.name, gpu->name);
		EQ(d.pci_domain, gpu->domain);
		EQ(d.pci_bus, gpu->bus << 8 | gpu->device << 3);
		EQ(d.minor_number, (int32_t)gpu->minor);
		EQ(d.nvml_index, (int32_t)gpu->nvml_index);
		EQ(d.cc_major, gpu->cc_major);
		EQ(d.units, gpu->sms);
		EQ(d.ordinal_pci, (int32_t)row);
		OK(row == 0 || bus > last);
		last = bus;
	}
	EQ(story_device(map, n).kind, GPUMAP_DEVICE_HOST);
}

static void xids_do_what_they_mean(const struct gpumap *map)
{
	struct gpumap_device d = story_device(map, 1);
	uint32_t gpu = cuda_scene_gpu(&scene, &d);
	uint64_t until = story_now() + STORY_LIMIT_NS;

	cuda_scene_add(&scene, "row %u: xid 31", gpu);
	while (story_device(map, 1).xids == 0 && story_now() < until)
		story_nap(2000);
	d = story_device(map, 1);
	EQ(d.xids, 1);
	EQ(d.last_xid, 31);
	EQ(d.state, GPUMAP_DEVICE_READY);
	cuda_scene_add(&scene, "row %u: xid 48", gpu);
	OK(becomes(map, 1, GPUMAP_DEVICE_FAILED));
	EQ(story_device(map, 1).error, 48);
	EQ(story_device(map, 0).state, GPUMAP_DEVICE_READY);
}

/* Row 1 is FAILED before, and has been reset when it comes back. */
static void a_drained_card_is_open_nowhere(struct gpumap *map)
{
	struct gpumap_device d = story_device(map, 1);
	uint32_t gpu = cuda_scene_gpu(&scene, &d);

	OK(cuda_scene_users(&scene, gpu) > 0);
	EQ(gpumap_device_drain(map, 1), 0);
	EQ(story_device(map, 1).state, GPUMAP_DEVICE_DRAINING);
	EQ(cuda_scene_users(&scene, gpu), 0);
	EQ(gpumap_device_undrain(map, 1), 0);
	OK(becomes(map, 1, GPUMAP_DEVICE_READY));
}

static void a_card_is_lost_and_comes_back(const struct gpumap *map)
{
	struct gpumap_device d = story_device(map, 0);
	uint32_t gpu = cuda_scene_gpu(&scene, &d);

	cuda_scene_add(&scene, "row %u: lost", gpu);
	OK(becomes(map, 0, GPUMAP_DEVICE_LOST));
	EQ(story_device(map, 1).state, GPUMAP_DEVICE_READY);
	cuda_scene_mend(&scene);
	cuda_scene_add(&scene, "row %u: back", gpu);
	OK(becomes(map, 0, GPUMAP_DEVICE_READY));
	cuda_scene_mend(&scene);
}

TAP_CASE()
{
	struct gpumap *map;

	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return tap_done();
	cuda_scene_agent(&scene, &agent, "", "[agent]\nrefresh = 100ms\n");
	if (OK(agent_start(&agent))) {
		map = story_attach(&agent);
		rows_are_what_the_cards_are(map);
		xids_do_what_they_mean(map);
		a_drained_card_is_open_nowhere(map);
		a_card_is_lost_and_comes_back(map);
		gpumap_detach(map);
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	cuda_scene_end(&scene);
	agent_remove(&agent);
	return tap_done();
}

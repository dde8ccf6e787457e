/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-probe on cards that have nothing: what it finds, and what moves. */

#include "tests/support/probe_rig.h"

static const char *const quick[] = { "--refresh", "20ms", "--sysfs",
				     "/nonexistent", NULL };

static void absence_is_no_fault(void)
{
	struct scene scene;
	struct probe p;

	/* No driver is loaded, as a library without its module says. */
	if (!probe_start(&p, NULL, quick))
		return;
	UNTIL(&p, p.is_closed);
	EQ(p.last.type, PROBE_ABSENT);
	OK(strstr(p.last.text, "DRIVER_NOT_LOADED") != NULL);
	EQ(p.n_seen + p.n_listed, 0);
	EQ(probe_end(&p), 0);

	if (!scene_set(&scene, "cpu-only.yaml", NULL))
		return;
	if (probe_start(&p, &scene, quick)) {
		UNTIL(&p, p.is_closed);
		EQ(p.last.type, PROBE_ABSENT);
		OK(strstr(p.last.text, "no card") != NULL);
		EQ(probe_end(&p), 0);
	}
	probe_nobody_left(&scene);
	scene_clear(&scene);
}

static void a_library_that_was_asked_for_is_there(void)
{
	const char *const options[] = { "--library", "/nonexistent", NULL };
	struct probe p;

	if (!probe_start(&p, NULL, options))
		return;
	UNTIL(&p, p.is_closed);
	EQ(p.last.type, PROBE_BROKEN);
	OK(strstr(p.last.text, "/nonexistent") != NULL);
	EQ(probe_end(&p), 1);
}

static void check_facts(const struct probe_seen *seen,
			const struct fake_gpu *gpu, uint32_t n)
{
	const struct gm_probe_device *d = &seen->device.device;
	const struct gm_row_image *row = &d->facts;
	char id[FAKE_UUID_TEXT];

	fake_uuid_print(gpu, id);
	STR(d->id, id);
	STR(d->name, gpu->name);
	EQ(memcmp(row->uuid, gpu->uuid, 16), 0);
	EQ(seen->health, GM_PROBE_USABLE);
	EQ(seen->code, 0);
	STR(seen->device.text, "");
	EQ(row->kind, GPUMAP_DEVICE_CUDA);
	EQ(row->pci_domain, gpu->domain);
	EQ(row->pci_bus, gpu->bus << 8 | gpu->device << 3);
	EQ(row->nvml_index, gpu->nvml_index);
	EQ(row->minor_number, gpu->minor);
	EQ(row->cc_major, gpu->cc_major);
	EQ(row->cc_minor, gpu->cc_minor);
	EQ(row->units, gpu->sms);
	EQ(row->threads_per_unit, gpu->threads_per_sm);
	OK(row->total_bytes > gpu->total / 2 && row->total_bytes <= gpu->total);
	OK(row->shared_bytes > 0);
	EQ(row->driver_version, 580163); /* 580.163.01 */
	EQ(row->cuda_version, 13000);
	EQ(row->mig_gi, -1);
	EQ(!!(row->flags & GPUMAP_DEVICE_BF16), gpu->cc_major >= 8);
	EQ(row->flags & GPUMAP_DEVICE_MIG, 0);
	OK(row->ordinal_pci >= 0 && row->ordinal_pci < (int32_t)n);
	OK(row->ordinal_fastest >= 0 && row->ordinal_fastest < (int32_t)n);
	EQ(row->known & (GPUMAP_KNOWN_PCI | GPUMAP_KNOWN_MEMORY |
			 GPUMAP_KNOWN_UNITS | GPUMAP_KNOWN_CC |
			 GPUMAP_KNOWN_NVML | GPUMAP_KNOWN_ORDINALS),
	   GPUMAP_KNOWN_PCI | GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_UNITS |
		   GPUMAP_KNOWN_CC | GPUMAP_KNOWN_NVML | GPUMAP_KNOWN_ORDINALS);
}

/* Its place among the cards, by PCI address. */
static uint32_t place_of(const struct scene *scene, uint32_t i)
{
	const struct fake_gpu *g = &scene->hw.board->gpus[i];
	uint32_t n = 0;

	for (uint32_t k = 0; k < scene->hw.board->n_gpus; k++) {
		const struct fake_gpu *o = &scene->hw.board->gpus[k];

		n += o->domain < g->domain ||
		     (o->domain == g->domain && o->bus < g->bus);
	}
	return n;
}

static void every_card_is_listed_whole(void)
{
	static const char *const nodes[] = { "mixed.yaml",     "a100.yaml",
					     "eight-gpu.yaml", "b200.yaml",
					     "gb200.yaml",     "gb300.yaml",
					     "l40s.yaml",      "t4.yaml" };
	struct scene scene;
	struct probe p;

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		uint32_t n, speeds = 0;

		if (!scene_set(&scene, nodes[i], NULL))
			continue;
		n = scene.hw.board->n_gpus;
		if (probe_start(&p, &scene, quick)) {
			UNTIL(&p, p.n_listed == 1);
			EQ(p.n_before, n);
			for (uint32_t k = 0; k < n; k++) {
				struct probe_seen *s =
					probe_meet(&p, &scene, k);

				EQ(s->n_devices, 1);
				check_facts(s, &scene.hw.board->gpus[k], n);
				EQ(s->device.device.facts.ordinal_pci,
				   place_of(&scene, k));
				speeds |= UINT32_C(1)
					  << s->device.device.facts
						     .ordinal_fastest;
			}
			EQ(speeds, (UINT32_C(1) << n) - 1);
			EQ(probe_end(&p), 0);
		}
		probe_nobody_left(&scene);
		scene_clear(&scene);
	}
}

static void what_moves_is_told_again(void)
{
	struct scene scene;
	struct probe_seen *seen;
	struct probe p;
	uint32_t n;

	if (!scene_set(&scene, "mixed.yaml", NULL))
		return;
	if (probe_start(&p, &scene, quick)) {
		UNTIL(&p, p.n_listed == 1);
		seen = probe_meet(&p, &scene, 1);
		UNTIL(&p, seen->n_moving >= 3);
		OK(seen->moving.moving.known & GPUMAP_KNOWN_MEMORY);
		fake_lock(&scene.hw);
		EQ(seen->moving.moving.free_bytes,
		   fake_free_bytes(&scene.hw, 1));
		fake_unlock(&scene.hw);
		/* Another mode, and back. */
		scene_add(&scene, "row 1: exclusive process");
		UNTIL(&p, seen->health == GM_PROBE_TAKEN);
		OK(strstr(seen->text, "EXCLUSIVE_PROCESS") != NULL);
		fake_lock(&scene.hw);
		scene.hw.board->gpus[1].compute_mode = 0;
		fake_unlock(&scene.hw);
		UNTIL(&p, seen->health == GM_PROBE_USABLE);
		STR(seen->text, "");
		n = probe_gpu(&p, &scene, 0)->n_moving;
		UNTIL(&p, probe_gpu(&p, &scene, 0)->n_moving > n + 2);
		EQ(p.n_listed, 1);
		EQ(probe_end(&p), 0);
	}
	probe_nobody_left(&scene);
	scene_clear(&scene);
}

static void a_shared_memory_is_the_machines(void)
{
	struct scene scene;
	struct probe_seen *seen;
	const char *const real[] = { "--refresh", "20ms", NULL };
	struct probe p;

	if (!scene_set(&scene, "unified.yaml",
		       "row 0: nvml memory not supported"))
		return;
	if (probe_start(&p, &scene, real)) {
		UNTIL(&p, p.n_listed == 1);
		seen = probe_meet(&p, &scene, 0);
		OK(seen->device.device.facts.flags & GPUMAP_DEVICE_MAIN_MEMORY);
		OK(seen->device.device.facts.flags & GPUMAP_DEVICE_INTEGRATED);
		OK(seen->device.device.facts.known & GPUMAP_KNOWN_MEMORY);
		UNTIL(&p, seen->n_moving > 0);
		EQ(seen->health, GM_PROBE_USABLE);
		OK(seen->moving.moving.known & GPUMAP_KNOWN_MEMORY);
		OK(seen->moving.moving.free_bytes > 0);
		EQ(probe_end(&p), 0);
	}
	scene_clear(&scene);
}

/* HMM or ATS: attribute 88 of the driver's. */
static void what_reaches_all_memory_is_told(void)
{
	struct scene scene;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml", "row 1: attribute 88 is 1"))
		return;
	if (probe_start(&p, &scene, quick)) {
		UNTIL(&p, p.n_listed == 1);
		for (uint32_t k = 0; k < scene.hw.board->n_gpus; k++) {
			struct probe_seen *seen = probe_meet(&p, &scene, k);

			EQ(!!(seen->device.device.facts.flags &
			      GPUMAP_DEVICE_PAGEABLE),
			   k == 1);
		}
		EQ(probe_end(&p), 0);
	}
	scene_clear(&scene);
}

static void every_pair_is_told_of(void)
{
	struct scene scene;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml", NULL))
		return;
	if (probe_start(&p, &scene, quick)) {
		UNTIL(&p, p.n_peers >= 12);
		EQ(p.n_peers, 12);
		for (uint32_t i = 0; i < p.n_peers; i++) {
			const struct gm_probe_wire *w = &p.peers[i];

			OK(probe_find(&p, w->uuid) != NULL);
			OK(probe_find(&p, w->peers.other) != NULL);
			OK(memcmp(w->uuid, w->peers.other, 16) != 0);
			OK(w->peers.read <= 1 && w->peers.write <= 1);
			OK(w->peers.level >= GM_NVML_TOPOLOGY_SINGLE &&
			   w->peers.level <= GM_NVML_TOPOLOGY_SYSTEM);
			for (uint32_t k = 0; k < i; k++)
				OK(memcmp(w->uuid, p.peers[k].uuid, 16) ||
				   memcmp(w->peers.other,
					  p.peers[k].peers.other, 16));
		}
		EQ(probe_end(&p), 0);
	}
	scene_clear(&scene);
}

TAP_CASE()
{
	scene_find_libraries();
	absence_is_no_fault();
	a_library_that_was_asked_for_is_there();
	every_card_is_listed_whole();
	what_moves_is_told_again();
	a_shared_memory_is_the_machines();
	what_reaches_all_memory_is_told();
	every_pair_is_told_of();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-probe on cards that are split: each instance is a device of its
 * own. */

#include "tests/support/probe_rig.h"

static const char *const quick[] = { "--refresh", "20ms", "--sysfs",
				     "/nonexistent", NULL };

static bool is_instance(const struct scene *scene, uint32_t i)
{
	return scene->hw.board->gpus[i].parent != i;
}

static bool begin(struct scene *scene, struct probe *p)
{
	if (!scene_set(scene, "split.yaml", NULL) ||
	    !probe_start(p, scene, quick))
		return false;
	UNTIL(p, p->n_listed == 1);
	EQ(p->n_before, scene->hw.board->n_gpus);
	return true;
}

static void finish(struct probe *p, struct scene *scene)
{
	EQ(p->is_closed, false);
	EQ(probe_end(p), 0);
	probe_nobody_left(scene);
	scene_clear(scene);
}

static void check_instance(const struct probe_seen *seen,
			   const struct fake_gpu *gpu,
			   const struct fake_gpu *parent)
{
	const struct gm_probe_device *d = &seen->device.device;
	const struct gm_row_image *row = &d->facts;
	char id[FAKE_UUID_TEXT];

	fake_uuid_print(gpu, id);
	STR(d->id, id);
	EQ(strncmp(d->id, "MIG-", 4), 0);
	EQ(memcmp(d->parent, parent->uuid, 16), 0);
	EQ(seen->health, GM_PROBE_USABLE);
	EQ(row->mig_gi, gpu->gi);
	EQ(row->mig_ci, gpu->ci);
	STR(row->mig_profile, gpu->profile);
	OK(row->known & GPUMAP_KNOWN_MIG);
	EQ(row->flags & GPUMAP_DEVICE_MIG, 0);
	EQ(row->units, gpu->sms);
	OK(row->threads_per_unit > 0 && row->shared_bytes > 0);
	EQ(row->cc_major, gpu->cc_major);
	OK(row->total_bytes > gpu->total / 2 && row->total_bytes <= gpu->total);
	/* The instance is where its card is. */
	EQ(row->pci_bus, parent->bus << 8 | parent->device << 3);
	EQ(row->nvml_index, parent->nvml_index);
	EQ(row->minor_number, parent->minor);
}

static void an_instance_is_a_device(void)
{
	struct scene scene;
	struct probe p;

	if (!begin(&scene, &p))
		return;
	for (uint32_t i = 0; i < scene.hw.board->n_gpus; i++) {
		const struct fake_gpu *gpu = &scene.hw.board->gpus[i];
		struct probe_seen *seen = probe_meet(&p, &scene, i);
		static const uint8_t none[16];

		if (is_instance(&scene, i)) {
			check_instance(seen, gpu,
				       &scene.hw.board->gpus[gpu->parent]);
			continue;
		}
		EQ(memcmp(seen->device.device.parent, none, 16), 0);
		EQ(seen->device.device.facts.mig_gi, -1);
		EQ(seen->health,
		   gpu->is_split ? GM_PROBE_SPLIT : GM_PROBE_USABLE);
		EQ(!!(seen->device.device.facts.flags & GPUMAP_DEVICE_MIG),
		   gpu->is_split);
		if (gpu->is_split)
			EQ(seen->device.device.facts.ordinal_pci, -1);
	}
	finish(&p, &scene);
}

/* A device that the driver does not enumerate has no ordinal. */
static void ordinals_are_those_of_the_driver(void)
{
	struct scene scene;
	struct probe p;
	uint32_t places = 0, n = 0;

	if (!begin(&scene, &p))
		return;
	for (uint32_t i = 0; i < scene.hw.board->n_gpus; i++) {
		const struct gm_row_image *row =
			&probe_gpu(&p, &scene, i)->device.device.facts;

		UNTIL(&p, row->known & GPUMAP_KNOWN_ORDINALS);
		EQ(row->ordinal_pci < 0, row->ordinal_fastest < 0);
		if (row->ordinal_pci < 0)
			continue;
		places |= UINT32_C(1) << row->ordinal_pci;
		n++;
	}
	OK(n > 0 && n < scene.hw.board->n_gpus);
	EQ(places, (UINT32_C(1) << n) - 1);
	finish(&p, &scene);
}

static void the_instances_share_their_cards_fate(void)
{
	struct scene scene;
	struct probe p;

	if (!begin(&scene, &p))
		return;
	scene_add(&scene, "row 0: xid 95");
	for (uint32_t i = 0; i < 5; i++)
		UNTIL(&p, probe_gpu(&p, &scene, i)->health == GM_PROBE_FAILED);
	for (uint32_t i = 5; i < scene.hw.board->n_gpus; i++)
		OK(probe_gpu(&p, &scene, i)->health != GM_PROBE_FAILED);
	scene_add(&scene, "row 6: lost");
	for (uint32_t i = 6; i < 9; i++)
		UNTIL(&p, probe_gpu(&p, &scene, i)->health == GM_PROBE_LOST);
	EQ(probe_gpu(&p, &scene, 5)->health, GM_PROBE_USABLE);
	scene_add(&scene, "row 6: back");
	for (uint32_t i = 7; i < 9; i++)
		UNTIL(&p, probe_gpu(&p, &scene, i)->health == GM_PROBE_USABLE);
	finish(&p, &scene);
}

static void a_split_card_is_let_go_with_all_it_has(void)
{
	struct scene scene;
	struct probe_seen *it;
	struct probe p;

	if (!begin(&scene, &p))
		return;
	it = probe_meet(&p, &scene, 0);
	probe_say(&p, PROBE_RELEASE, it->device.uuid);
	UNTIL(&p, it->n_released == 1);
	for (uint32_t i = 0; i < 5; i++)
		EQ(probe_holders(&scene, i), 0);
	probe_say(&p, PROBE_RESUME, it->device.uuid);
	UNTIL(&p, probe_holders(&scene, 0) > 0);
	finish(&p, &scene);
}

static void an_instance_comes_and_goes(void)
{
	struct fake_gpu *gpu;
	struct scene scene;
	struct probe p;

	if (!begin(&scene, &p))
		return;
	gpu = &scene.hw.board->gpus[4];
	fake_lock(&scene.hw);
	gpu->parent = FAKE_GPUS - 1; /* of no card that there is */
	fake_unlock(&scene.hw);
	UNTIL(&p, probe_gpu(&p, &scene, 4)->health == GM_PROBE_LOST);
	OK(strstr(probe_gpu(&p, &scene, 4)->text, "taken down") != NULL);
	EQ(probe_gpu(&p, &scene, 3)->health, GM_PROBE_USABLE);
	fake_lock(&scene.hw);
	gpu->parent = 0;
	fake_unlock(&scene.hw);
	UNTIL(&p, probe_gpu(&p, &scene, 4)->health == GM_PROBE_USABLE);
	finish(&p, &scene);
}

/* The instance was destroyed unnoticed. */
static void who_is_not_met_again_is_gone(void)
{
	struct probe_seen *it;
	struct scene scene;
	struct probe p;

	if (!begin(&scene, &p))
		return;
	it = probe_meet(&p, &scene, 0);
	probe_say(&p, PROBE_RELEASE, it->device.uuid);
	UNTIL(&p, it->n_released == 1);
	fake_lock(&scene.hw);
	scene.hw.board->gpus[2].parent = FAKE_GPUS - 1;
	fake_unlock(&scene.hw);
	probe_say(&p, PROBE_RESUME, it->device.uuid);
	UNTIL(&p, probe_gpu(&p, &scene, 2)->health == GM_PROBE_LOST);
	EQ(probe_gpu(&p, &scene, 1)->health, GM_PROBE_USABLE);
	finish(&p, &scene);
}

TAP_CASE()
{
	scene_find_libraries();
	an_instance_is_a_device();
	ordinals_are_those_of_the_driver();
	the_instances_share_their_cards_fate();
	a_split_card_is_let_go_with_all_it_has();
	an_instance_comes_and_goes();
	who_is_not_met_again_is_gone();
	return tap_done();
}

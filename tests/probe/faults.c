/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-probe on cards that hang, are lost, or are refused by the driver: each
 * is one device with a reason, and the others know nothing of it.
 */

#include "tests/support/probe_rig.h"

static const char *const quick[] = { "--refresh", "20ms", "--sysfs",
				     "/nonexistent", NULL };

/* So that the first list is soon over. */
static const char *const brisk[] = { "--refresh", "20ms",    "--limit",
				     "300ms",     "--sysfs", "/nonexistent",
				     NULL };

/* So that what hangs is ended soon. */
static const char *const hasty[] = { "--refresh", "20ms",    "--limit",
				     "150ms",     "--sysfs", "/nonexistent",
				     NULL };

/* No faults any more, of this machine. */
static void heal(struct scene *scene)
{
	fake_lock(&scene->hw);
	scene->hw.board->plan.n_faults = 0;
	fake_unlock(&scene->hw);
}

/* All cards but @bad are listed and usable. */
static void others_are_well(struct probe *p, const struct scene *scene,
			    uint32_t bad)
{
	for (uint32_t i = 0; i < scene->hw.board->n_gpus; i++) {
		if (i == bad)
			continue;
		UNTIL(p, probe_gpu(p, scene, i)->health == GM_PROBE_USABLE);
	}
}

/* The device that has card @i's place, and not its name. */
static struct probe_seen *stranger(struct probe *p, const struct scene *scene,
				   uint32_t i)
{
	const struct fake_gpu *gpu = &scene->hw.board->gpus[i];

	for (uint32_t k = 0; k < p->n_seen; k++) {
		const struct gm_probe_wire *wire = &p->seen[k].device;

		if (wire->device.facts.nvml_index == (int)gpu->nvml_index &&
		    memcmp(wire->uuid, gpu->uuid, 16) != 0)
			return &p->seen[k];
	}
	return NULL;
}

static uint32_t n_usable(const struct probe *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_seen; i++)
		n += p->seen[i].health == GM_PROBE_USABLE;
	return n;
}

static void finish(struct probe *p, struct scene *scene)
{
	EQ(p->is_closed, false);
	EQ(probe_end(p), 0);
	probe_nobody_left(scene);
	scene_clear(scene);
}

static void one_that_hangs_is_one_row(void)
{
	struct scene scene;
	struct probe_seen *it;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml", "row 1: nvml slow 30 s") ||
	    !probe_start(&p, &scene, hasty))
		return;
	UNTIL(&p, p.n_listed == 1);
	others_are_well(&p, &scene, 1);
	UNTIL(&p, stranger(&p, &scene, 1) != NULL);
	it = stranger(&p, &scene, 1);
	EQ(it->health, GM_PROBE_FAILED);
	UNTIL(&p, strstr(it->text, "nvmlDeviceGetHandleByIndex") != NULL);
	OK(strstr(it->text, "150 ms") != NULL);
	/* A UUID of a version that no card has. */
	EQ(it->device.uuid[6] >> 4, 8);
	EQ(it->device.device.facts.nvml_index,
	   scene.hw.board->gpus[1].nvml_index);
	/* The probe ends the process that hung, and the next one is not so
	 * slow. */
	heal(&scene);
	UNTIL(&p, probe_gpu(&p, &scene, 1)->health == GM_PROBE_USABLE);
	UNTIL(&p, it->health == GM_PROBE_LOST);
	OK(strstr(it->text, probe_gpu(&p, &scene, 1)->device.device.id));
	EQ(p.n_listed, 1);
	finish(&p, &scene);
}

static void one_that_hangs_later_keeps_its_name(void)
{
	struct scene scene;
	struct probe_seen *it;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml", NULL) ||
	    !probe_start(&p, &scene, hasty))
		return;
	UNTIL(&p, p.n_listed == 1);
	it = probe_meet(&p, &scene, 2);
	scene_add(&scene, "row 2: nvml slow 30 s");
	UNTIL(&p, it->health == GM_PROBE_FAILED);
	OK(strstr(it->text, "hangs") != NULL);
	others_are_well(&p, &scene, 2);
	heal(&scene);
	UNTIL(&p, it->health == GM_PROBE_USABLE);
	/* On a slow machine the others may have had another name at first. */
	UNTIL(&p, n_usable(&p) == 4);
	finish(&p, &scene);
}

static void the_lost_are_found_again(void)
{
	static const char *const plans[] = { "row 0: lost",
					     "row 0: nvml lost" };
	struct scene scene;
	struct probe_seen *it;
	struct probe p;

	for (size_t i = 0; i < 2; i++) {
		/* From the start, it has no name. */
		if (!scene_set(&scene, "mixed.yaml", plans[i]) ||
		    !probe_start(&p, &scene, quick))
			return;
		UNTIL(&p, p.n_listed == 1);
		others_are_well(&p, &scene, 0);
		UNTIL(&p, stranger(&p, &scene, 0) != NULL);
		it = stranger(&p, &scene, 0);
		UNTIL(&p, it->health == GM_PROBE_LOST);
		EQ(it->code, GM_NVML_GPU_IS_LOST);
		heal(&scene);
		scene_add(&scene, "row 0: back");
		UNTIL(&p, probe_gpu(&p, &scene, 0)->health == GM_PROBE_USABLE);
		/* And once more, with its name. */
		it = probe_meet(&p, &scene, 0);
		scene_add(&scene, plans[i]);
		UNTIL(&p, it->health == GM_PROBE_LOST);
		OK(strstr(it->text, "GPU_IS_LOST") != NULL);
		others_are_well(&p, &scene, 0);
		heal(&scene);
		scene_add(&scene, "row 0: back");
		UNTIL(&p, it->health == GM_PROBE_USABLE);
		STR(it->text, "");
		finish(&p, &scene);
	}
}

static uint32_t heard(const struct probe *p, uint64_t xid, const uint8_t *uuid)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_events; i++)
		n += p->events[i].event.kind == GM_NVML_EVENT_XID &&
		     p->events[i].event.xid == xid &&
		     memcmp(p->events[i].uuid, uuid, 16) == 0;
	return n;
}

/* A card knows nothing of programs' faults. */
static void foreign_xids_are_told_and_change_nothing(void)
{
	static const uint32_t xids[] = { 13, 31, 43, 45, 68, 94, 109, 154 };
	const size_t n = sizeof(xids) / sizeof(xids[0]);
	struct scene scene;
	struct probe_seen *it;
	struct probe p;
	char line[64];

	if (!scene_set(&scene, "mixed.yaml", NULL) ||
	    !probe_start(&p, &scene, quick))
		return;
	UNTIL(&p, p.n_listed == 1);
	it = probe_meet(&p, &scene, 1);
	UNTIL(&p, it->n_moving > 1);
	for (size_t i = 0; i < n; i++) {
		uint32_t before = it->n_moving;

		snprintf(line, sizeof(line), "row 1: xid %u", xids[i]);
		scene_add(&scene, line);
		UNTIL(&p, heard(&p, xids[i], it->device.uuid) == 1);
		UNTIL(&p, it->n_moving > before + 1);
		EQ(it->health, GM_PROBE_USABLE);
	}
	EQ(p.n_events, n);
	finish(&p, &scene);
}

static void an_xid_of_the_card_fails_it_until_it_is_let_go(void)
{
	static const uint32_t xids[] = { 48, 95 };
	struct scene scene;
	struct probe p;
	char line[64];

	if (!scene_set(&scene, "mixed.yaml", NULL) ||
	    !probe_start(&p, &scene, quick))
		return;
	UNTIL(&p, p.n_listed == 1);
	for (uint32_t i = 0; i < 2; i++) {
		struct probe_seen *it = probe_meet(&p, &scene, i);
		uint32_t before;

		UNTIL(&p, it->n_moving > 0);
		snprintf(line, sizeof(line), "row %u: xid %u", i, xids[i]);
		scene_add(&scene, line);
		UNTIL(&p, it->health == GM_PROBE_FAILED);
		EQ(it->code, xids[i]);
		OK(strstr(it->text, "reset") != NULL);
		UNTIL(&p, heard(&p, xids[i], it->device.uuid) == 1);
		/* NVML says that all is well, and is not believed. */
		before = it->n_moving;
		UNTIL(&p, it->n_moving > before + 3);
		EQ(it->health, GM_PROBE_FAILED);
		probe_say(&p, PROBE_RELEASE, it->device.uuid);
		UNTIL(&p, it->n_released == 1);
		probe_say(&p, PROBE_RESUME, it->device.uuid);
		UNTIL(&p, it->health == GM_PROBE_USABLE);
	}
	finish(&p, &scene);
}

static void an_xid_79_is_a_card_that_is_gone(void)
{
	struct scene scene;
	struct probe_seen *it;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml", NULL) ||
	    !probe_start(&p, &scene, quick))
		return;
	UNTIL(&p, p.n_listed == 1);
	it = probe_meet(&p, &scene, 3);
	scene_add(&scene, "row 3: lost; row 3: xid 79");
	UNTIL(&p, it->health == GM_PROBE_LOST);
	UNTIL(&p, heard(&p, 79, it->device.uuid) == 1 ||
			  strstr(it->text, "GPU_IS_LOST"));
	others_are_well(&p, &scene, 3);
	scene_add(&scene, "row 3: back");
	UNTIL(&p, it->health == GM_PROBE_USABLE);
	finish(&p, &scene);
}

/* The wait returns at once and for ever, which must not become a busy loop. */
static void without_events_there_is_the_rest(void)
{
	struct scene scene;
	struct probe_seen *it;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml", "nvml event wait fails") ||
	    !probe_start(&p, &scene, quick))
		return;
	UNTIL(&p, p.n_listed == 1);
	others_are_well(&p, &scene, UINT32_MAX);
	it = probe_meet(&p, &scene, 0);
	UNTIL(&p, it->n_moving > 5);
	scene_add(&scene, "row 0: lost");
	UNTIL(&p, it->health == GM_PROBE_LOST);
	finish(&p, &scene);
}

static void a_fact_that_is_missing_is_missed_alone(void)
{
	struct scene scene;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml",
		       "symbol missing nvmlDeviceGetMinorNumber") ||
	    !probe_start(&p, &scene, quick))
		return;
	UNTIL(&p, p.n_listed == 1);
	others_are_well(&p, &scene, UINT32_MAX);
	EQ(probe_gpu(&p, &scene, 0)->device.device.facts.minor_number, -1);
	OK(probe_gpu(&p, &scene, 0)->device.device.facts.nvml_index >= 0);
	finish(&p, &scene);
}

static void what_the_driver_refuses_is_tried_again(void)
{
	static const struct {
		const char *plan;
		int32_t code;
		const char *text;
	} cases[] = {
		{ "init fails 802", 802, "SYSTEM_NOT_READY" },
		{ "init fails 999", 999, "UNKNOWN" },
		{ "symbol missing cuStreamQuery", 0, "cuStreamQuery" },
		{ "driver 11.8", 0, "12.0" },
	};
	struct scene scene;
	struct probe p;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		NOTE("%s", cases[i].plan);
		if (!scene_set(&scene, "mixed.yaml", cases[i].plan) ||
		    !probe_start(&p, &scene, quick))
			return;
		UNTIL(&p, p.n_listed == 1);
		for (uint32_t k = 0; k < 4; k++) {
			struct probe_seen *it = probe_meet(&p, &scene, k);

			UNTIL(&p, it->health == GM_PROBE_FAILED &&
					  strstr(it->text, cases[i].text));
			EQ(it->code, cases[i].code);
			EQ(it->device.device.facts.known &
				   GPUMAP_KNOWN_ORDINALS,
			   0);
		}
		heal(&scene);
		others_are_well(&p, &scene, UINT32_MAX);
		UNTIL(&p, probe_gpu(&p, &scene, 0)->device.device.facts.known &
				  GPUMAP_KNOWN_ORDINALS);
		finish(&p, &scene);
	}
}

/* The list is not kept waiting for it. */
static void a_slow_driver_is_waited_for_apart(void)
{
	struct scene scene;
	struct probe_seen *it;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml", "init takes 30 s") ||
	    !probe_start(&p, &scene, brisk))
		return;
	UNTIL(&p, p.n_listed == 1);
	for (uint32_t i = 0; i < 4; i++)
		probe_meet(&p, &scene, i);
	it = probe_meet(&p, &scene, 1);
	EQ(it->device.device.facts.known & GPUMAP_KNOWN_ORDINALS, 0);
	heal(&scene);
	UNTIL(&p, it->device.device.facts.known & GPUMAP_KNOWN_ORDINALS);
	UNTIL(&p, it->device.device.facts.shared_bytes > 0);
	EQ(it->health, GM_PROBE_USABLE);
	finish(&p, &scene);
}

static void a_driver_that_hangs_is_given_up(void)
{
	const char *const options[] = {
		"--refresh", "20ms",           "--limit",
		"200ms",     "--driver-limit", "300ms",
		"--sysfs",   "/nonexistent",   NULL
	};
	struct scene scene;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml", "init takes 30 s") ||
	    !probe_start(&p, &scene, options))
		return;
	UNTIL(&p, p.n_listed == 1);
	for (uint32_t i = 0; i < 4; i++) {
		struct probe_seen *it = probe_meet(&p, &scene, i);

		UNTIL(&p, it->health == GM_PROBE_FAILED &&
				  strstr(it->text, "in cuInit"));
	}
	heal(&scene);
	others_are_well(&p, &scene, UINT32_MAX);
	finish(&p, &scene);
}

static void who_wants_a_card_alone_has_it(void)
{
	struct scene scene;
	struct probe p;

	if (!scene_set(&scene, "mixed.yaml",
		       "row 0: exclusive process; row 1: prohibited") ||
	    !probe_start(&p, &scene, quick))
		return;
	UNTIL(&p, p.n_listed == 1);
	UNTIL(&p, probe_gpu(&p, &scene, 0)->health == GM_PROBE_TAKEN);
	UNTIL(&p, probe_gpu(&p, &scene, 1)->health == GM_PROBE_TAKEN);
	OK(strstr(probe_gpu(&p, &scene, 1)->text, "PROHIBITED") != NULL);
	UNTIL(&p, probe_gpu(&p, &scene, 2)->health == GM_PROBE_USABLE);
	finish(&p, &scene);
}

TAP_CASE()
{
	scene_find_libraries();
	one_that_hangs_is_one_row();
	one_that_hangs_later_keeps_its_name();
	the_lost_are_found_again();
	foreign_xids_are_told_and_change_nothing();
	an_xid_of_the_card_fails_it_until_it_is_let_go();
	an_xid_79_is_a_card_that_is_gone();
	without_events_there_is_the_rest();
	a_fact_that_is_missing_is_missed_alone();
	what_the_driver_refuses_is_tried_again();
	a_slow_driver_is_waited_for_apart();
	a_driver_that_hangs_is_given_up();
	who_wants_a_card_alone_has_it();
	return tap_done();
}

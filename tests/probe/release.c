/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-probe lets go of a card: whatever has it open is gone, and only
 * that. */

#include <sys/stat.h>

#include "tests/support/probe_rig.h"

static const char *const quick[] = { "--refresh", "20ms",    "--limit",
				     "300ms",     "--sysfs", "/nonexistent",
				     NULL };

static void finish(struct probe *p, struct scene *scene)
{
	EQ(p->is_closed, false);
	EQ(probe_end(p), 0);
	probe_nobody_left(scene);
	scene_clear(scene);
}

static bool begin(struct scene *scene, struct probe *p, const char *plan)
{
	if (!scene_set(scene, "mixed.yaml", plan) ||
	    !probe_start(p, scene, quick))
		return false;
	UNTIL(p, p->n_listed == 1);
	return true;
}

static void a_released_card_is_nobodys(void)
{
	struct probe_seen *it, *other;
	struct scene scene;
	struct probe p;
	uint32_t n, n_devices;

	if (!begin(&scene, &p, NULL))
		return;
	it = probe_meet(&p, &scene, 2);
	other = probe_meet(&p, &scene, 0);
	UNTIL(&p, p.n_peers >= 12 && it->n_moving > 0);
	OK(probe_holders(&scene, 2) > 0);
	probe_say(&p, PROBE_RELEASE, it->device.uuid);
	UNTIL(&p, it->n_released == 1);
	EQ(probe_holders(&scene, 2), 0);
	/* The others are still looked at, and it is not. */
	n = other->n_moving;
	n_devices = it->n_devices;
	UNTIL(&p, other->n_moving > n + 5);
	EQ(probe_holders(&scene, 2), 0);
	OK(probe_holders(&scene, 0) > 0);
	EQ(it->n_devices, n_devices);
	/* Twice is once, with an answer for each. */
	probe_say(&p, PROBE_RELEASE, it->device.uuid);
	UNTIL(&p, it->n_released == 2);
	probe_say(&p, PROBE_RESUME, it->device.uuid);
	UNTIL(&p, it->n_devices > n_devices);
	UNTIL(&p, probe_holders(&scene, 2) > 0);
	n = it->n_moving;
	UNTIL(&p, it->n_moving > n + 2);
	EQ(it->health, GM_PROBE_USABLE);
	finish(&p, &scene);
}

/* The driver's child had it open, and is not let finish. */
static void a_driver_that_is_busy_is_ended(void)
{
	struct probe_seen *it;
	struct scene scene;
	struct probe p;

	if (!begin(&scene, &p, "init takes 20 s"))
		return;
	it = probe_meet(&p, &scene, 1);
	probe_say(&p, PROBE_RELEASE, it->device.uuid);
	UNTIL(&p, it->n_released == 1);
	EQ(probe_holders(&scene, 1), 0);
	fake_lock(&scene.hw);
	scene.hw.board->plan.n_faults = 0;
	fake_unlock(&scene.hw);
	probe_say(&p, PROBE_RESUME, it->device.uuid);
	UNTIL(&p, it->device.device.facts.known & GPUMAP_KNOWN_ORDINALS);
	EQ(it->health, GM_PROBE_USABLE);
	finish(&p, &scene);
}

static void one_that_hangs_is_let_go_too(void)
{
	struct probe_seen *it;
	struct scene scene;
	struct probe p;

	if (!begin(&scene, &p, NULL))
		return;
	it = probe_meet(&p, &scene, 3);
	scene_add(&scene, "row 3: nvml slow 30 s");
	UNTIL(&p, it->health == GM_PROBE_FAILED);
	probe_say(&p, PROBE_RELEASE, it->device.uuid);
	UNTIL(&p, it->n_released == 1);
	EQ(probe_holders(&scene, 3), 0);
	finish(&p, &scene);
}

static void of_what_nobody_knows_nothing_is_open(void)
{
	static const uint8_t nonsense[16] = { 1, 2, 3 };
	struct gm_probe_wire wire;
	struct scene scene;
	struct probe p;
	bool is_answered = false;

	if (!begin(&scene, &p, NULL))
		return;
	probe_say(&p, PROBE_RESUME, nonsense);
	probe_say(&p, PROBE_RELEASE, nonsense);
	for (time_t from = time(NULL); !is_answered && !probe_late(from);)
		is_answered = recv(p.fd, &wire, sizeof(wire), 0) > 0 &&
			      wire.type == PROBE_RELEASED &&
			      memcmp(wire.uuid, nonsense, 16) == 0;
	OK(is_answered);
	finish(&p, &scene);
}

/* The next probe is told before it has looked. */
static void the_next_probe_leaves_it_alone(void)
{
	struct probe_seen *other;
	struct scene scene;
	struct probe p;
	const uint8_t *uuid;

	if (!scene_set(&scene, "mixed.yaml", NULL) ||
	    !probe_start(&p, &scene, quick))
		return;
	uuid = scene.hw.board->gpus[1].uuid;
	probe_say(&p, PROBE_RELEASE, uuid);
	UNTIL(&p, p.n_listed == 1);
	UNTIL(&p, p.n_seen == 3);
	OK(probe_find(&p, uuid) == NULL);
	other = probe_meet(&p, &scene, 0);
	UNTIL(&p, other->n_moving > 3);
	OK(probe_find(&p, uuid) == NULL);
	EQ(probe_holders(&scene, 1), 0);
	probe_say(&p, PROBE_RESUME, uuid);
	UNTIL(&p, probe_gpu(&p, &scene, 1)->health == GM_PROBE_USABLE);
	UNTIL(&p, probe_holders(&scene, 1) > 0);
	UNTIL(&p, probe_gpu(&p, &scene, 1)->device.device.facts.known &
			  GPUMAP_KNOWN_ORDINALS);
	finish(&p, &scene);
}

static const char *const folders[] = { "proc", "proc/driver",
				       "proc/driver/nvidia",
				       "proc/driver/nvidia/gpus" };

/* The folder of a card, and the place in it where a file's name goes. */
static int card_folder(const char *root, const struct fake_gpu *gpu,
		       char path[256])
{
	return snprintf(path, 256, "%s/%s/%04x:%02x:%02x.0", root, folders[3],
			gpu->domain, gpu->bus, gpu->device);
}

/* The kernel module's file of every card of a machine. */
static bool make_kernel(const struct scene *scene, char *root)
{
	char path[256], id[FAKE_UUID_TEXT];

	if (!OK(mkdtemp(root) != NULL))
		return false;
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		EQ(mkdir(path, 0700), 0);
	}
	for (uint32_t i = 0; i < scene->hw.board->n_gpus; i++) {
		const struct fake_gpu *gpu = &scene->hw.board->gpus[i];
		int n = card_folder(root, gpu, path);
		FILE *file;

		EQ(mkdir(path, 0700), 0);
		strcpy(path + n, "/information");
		file = fopen(path, "w");
		if (!OK(file != NULL))
			return false;
		fake_uuid_print(gpu, id);
		fprintf(file,
			"Model: \t\t %s\nGPU UUID: \t %s\n"
			"Device Minor: \t %u\n",
			gpu->name, id, gpu->minor);
		fclose(file);
	}
	return true;
}

static void remove_kernel(const struct scene *scene, const char *root)
{
	char path[256];

	for (uint32_t i = 0; i < scene->hw.board->n_gpus; i++) {
		int n = card_folder(root, &scene->hw.board->gpus[i], path);

		strcpy(path + n, "/information");
		unlink(path);
		path[n] = '\0';
		rmdir(path);
	}
	for (size_t i = 4; i-- > 0;) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		rmdir(path);
	}
	EQ(rmdir(root), 0);
}

static void who_hangs_has_the_kernels_name(struct scene *scene,
					   const char *const *options)
{
	const struct fake_gpu *gpu = &scene->hw.board->gpus[1];
	const struct gm_row_image *row;
	struct probe p;

	scene_add(scene, "row 1: nvml slow 30 s");
	if (!probe_start(&p, scene, options))
		return;
	UNTIL(&p, probe_gpu(&p, scene, 1)->health == GM_PROBE_FAILED);
	row = &probe_gpu(&p, scene, 1)->device.device.facts;
	EQ(row->pci_bus >> 8, gpu->bus);
	EQ(row->minor_number, gpu->minor);
	EQ(row->nvml_index, gpu->nvml_index);
	EQ(probe_end(&p), 0);
	probe_nobody_left(scene);
}

static void the_kernel_is_asked_for_names(void)
{
	char root[] = "/tmp/gpumap-probe.XXXXXX";
	const char *const options[] = { "--refresh", "20ms", "--limit", "300ms",
					"--sysfs",   root,   NULL };
	struct scene scene;

	if (!scene_set(&scene, "mixed.yaml", NULL))
		return;
	if (make_kernel(&scene, root)) {
		who_hangs_has_the_kernels_name(&scene, options);
		remove_kernel(&scene, root);
	}
	scene_clear(&scene);
}

TAP_CASE()
{
	scene_find_libraries();
	a_released_card_is_nobodys();
	a_driver_that_is_busy_is_ended();
	one_that_hangs_is_let_go_too();
	of_what_nobody_knows_nothing_is_open();
	the_next_probe_leaves_it_alone();
	the_kernel_is_asked_for_names();
	return tap_done();
}

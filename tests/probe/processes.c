/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-probe on cards that processes use: who they are, and how much each
 * has. */

#include "tests/support/card_user.h"
#include "tests/support/probe_rig.h"
#include "tests/support/sysfs_tree.h"

#define GIB (UINT64_C(1) << 30)

static struct scene scene;
static struct probe p;

static bool begin(const char *node, const char *plan)
{
	const char *const options[] = { "--refresh", "20ms", "--sysfs",
					tree.root, NULL };

	if (!scene_set(&scene, node, plan) || !probe_start(&p, &scene, options))
		return false;
	UNTIL(&p, p.n_listed == 1);
	return true;
}

static void finish(void)
{
	EQ(p.is_closed, false);
	EQ(probe_end(&p), 0);
	probe_nobody_left(&scene);
	scene_clear(&scene);
}

/* The last look's record of a process; NULL: there is none. */
static const struct gm_probe_process *told_of(uint32_t gpu, pid_t pid)
{
	const struct probe_seen *seen = probe_gpu(&p, &scene, gpu);

	for (uint32_t i = 0; i < seen->moving.moving.n_processes; i++)
		if (seen->processes[i].n > 0 &&
		    seen->processes[i].line[0].pid == (uint32_t)pid)
			return &seen->processes[i];
	return NULL;
}

static bool has(uint32_t gpu, pid_t pid, uint64_t bytes)
{
	const struct gm_probe_process *told = told_of(gpu, pid);

	return told != NULL && told->low_bytes == bytes &&
	       told->high_bytes == bytes;
}

static const struct gm_probe_moving *moving_of(uint32_t gpu)
{
	return &probe_gpu(&p, &scene, gpu)->moving.moving;
}

static void each_process_is_told_of(void)
{
	struct card_user a, b;

	if (!begin("mixed.yaml", NULL))
		return;
	UNTIL(&p, moving_of(0)->figures == GM_FIGURES_KNOWN);
	EQ(moving_of(0)->n_processes, 0);
	if (!card_user_start(&a, scene.path, 0, 1) ||
	    !card_user_start(&b, scene.path, 0, 3))
		return;
	card_user_has(&a, 2 * GIB);
	card_user_has(&b, 3 * GIB);
	/* A look reads the memory in use before it reads who has it. */
	UNTIL(&p, has(0, a.last, 2 * GIB) && has(0, b.last, 3 * GIB) &&
			  moving_of(0)->used_bytes >= 5 * GIB);
	EQ(moving_of(0)->n_processes, 2);
	EQ(told_of(0, a.last)->line[1].pid, getpid());
	EQ(told_of(0, b.last)->line[2].pid, b.first);
	EQ(told_of(0, b.last)->line[3].pid, getpid());
	EQ(told_of(1, a.last) != NULL, false);
	card_user_has(&a, GIB);
	UNTIL(&p, has(0, a.last, GIB));
	card_user_end(&b);
	UNTIL(&p, moving_of(0)->n_processes == 1);
	card_user_end(&a);
	UNTIL(&p, moving_of(0)->n_processes == 0);
	EQ(moving_of(0)->figures, GM_FIGURES_KNOWN);
	finish();
}

/* More than one report can carry while gpumapd does not read. */
static void a_reader_that_rests_gets_whole_looks(void)
{
	struct card_user users[8];
	int wrong = 0;

	if (!begin("mixed.yaml", NULL))
		return;
	for (int i = 0; i < 8; i++) {
		card_user_start(&users[i], scene.path, 0, 2);
		card_user_has(&users[i], GIB / 8);
	}
	/* Looks from before a process had all of its memory are whole, too. */
	for (int i = 0; i < 8; i++)
		UNTIL(&p, has(0, users[i].last, GIB / 8));
	for (int round = 0; round < 4; round++) {
		uint32_t n = probe_gpu(&p, &scene, 0)->n_moving;

		/* Until the socket is full for sure, or all is told. */
		usleep(200000);
		UNTIL(&p, probe_gpu(&p, &scene, 0)->n_moving > n + 4);
		UNTIL(&p, moving_of(0)->n_processes == 8);
		for (int i = 0; i < 8; i++)
			wrong += !has(0, users[i].last, GIB / 8);
	}
	EQ(wrong, 0);
	for (int i = 0; i < 8; i++)
		card_user_end(&users[i]);
	finish();
}

static void what_nvml_keeps_to_itself(void)
{
	static const struct {
		const char *plan;
		uint32_t figures, n;
	} cases[] = {
		{ "row 0: nvml processes refused", GM_FIGURES_REFUSED, 0 },
		{ "row 0: nvml processes without bytes", GM_FIGURES_PARTLY, 1 },
		{ "row 0: nvml processes without pids", GM_FIGURES_KNOWN, 1 },
		{ "symbol missing nvmlDeviceGetComputeRunningProcesses_v3",
		  GM_FIGURES_REFUSED, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct card_user user;

		if (!begin("mixed.yaml", cases[i].plan))
			return;
		card_user_start(&user, scene.path, 0, 1);
		card_user_has(&user, GIB);
		UNTIL(&p, moving_of(0)->used_bytes >= GIB &&
				  moving_of(0)->figures == cases[i].figures);
		EQ(moving_of(0)->n_processes, cases[i].n);
		OK(told_of(0, user.last) == NULL);
		card_user_end(&user);
		finish();
	}
}

/* An instance has its own processes. */
static void instances_are_told_apart(void)
{
	struct card_user user;

	if (!begin("split.yaml", NULL))
		return;
	card_user_start(&user, scene.path, 1, 1);
	card_user_has(&user, GIB);
	UNTIL(&p, has(1, user.last, GIB));
	UNTIL(&p, moving_of(2)->figures == GM_FIGURES_KNOWN);
	OK(told_of(2, user.last) == NULL);
	card_user_end(&user);
	finish();
}

static void another_namespace_is_told(void)
{
	struct card_user user;

	tree_unlink("proc/self/ns/pid");
	tree_link("proc/self/ns/pid", "pid:[4026532001]");
	if (!begin("mixed.yaml", NULL))
		return;
	card_user_start(&user, scene.path, 0, 1);
	card_user_has(&user, GIB);
	UNTIL(&p, moving_of(0)->used_bytes >= GIB);
	EQ(moving_of(0)->figures, GM_FIGURES_NAMESPACE);
	EQ(moving_of(0)->n_processes, 0);
	card_user_end(&user);
	finish();
}

TAP_CASE()
{
	if (!tree_begin())
		return tap_done();
	tree_link("proc/self/ns/pid", "pid:[4026531836]");
	each_process_is_told_of();
	a_reader_that_rests_gets_whole_looks();
	what_nvml_keeps_to_itself();
	instances_are_told_apart();
	another_namespace_is_told();
	tree_end();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The stand-in for NVML alone: orders, device nodes, and faults of its own. */

#include <signal.h>

#include "tests/support/fake_machine.h"
#include "tests/support/nvml_abi.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- parts */

static struct nvml_calls ml;

static bool load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library)
		nvml_calls_find(&ml, library);
	return library != NULL;
}

static double now_ms(void)
{
	return (double)fake_now_ns() / 1e6;
}

static int no_driver(void)
{
	unsetenv("GPUMAP_FAKE_HARDWARE");
	WANT(ml.nvmlInit_v2() == NVML_ERROR_DRIVER_NOT_LOADED);
	return 0;
}

static int no_card(void)
{
	unsigned int n = 99;

	WANT(!ml.nvmlInit_v2() && !ml.nvmlDeviceGetCount_v2(&n) && n == 0);
	WANT(!ml.nvmlShutdown());
	return 0;
}

/* One card's fault is not the others'. */
static int one_is_lost(void)
{
	nvmlDevice_t lost, other;
	unsigned int n = 0;
	char name[96];

	WANT(!ml.nvmlInit_v2() && !ml.nvmlDeviceGetCount_v2(&n) && n == 4);
	WANT(ml.nvmlDeviceGetHandleByIndex_v2(3, &lost) ==
	     NVML_ERROR_GPU_IS_LOST);
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(2, &other));
	WANT(!ml.nvmlDeviceGetName(other, name, sizeof(name)));
	WANT(!ml.nvmlShutdown());
	return 0;
}

static int memory_is_hidden(void)
{
	nvmlMemory_v2_t finer = { .version = NVML_MEMORY_V2 };
	nvmlMemory_t memory;
	nvmlDevice_t device;

	WANT(!ml.nvmlInit_v2() &&
	     !ml.nvmlDeviceGetHandleByIndex_v2(0, &device));
	WANT(ml.nvmlDeviceGetMemoryInfo(device, &memory) ==
	     NVML_ERROR_NOT_SUPPORTED);
	WANT(ml.nvmlDeviceGetMemoryInfo_v2(device, &finer) ==
	     NVML_ERROR_NOT_SUPPORTED);
	WANT(!ml.nvmlShutdown());
	return 0;
}

static int one_is_slow(void)
{
	nvmlDevice_t slow, other;
	double from = now_ms();

	WANT(!ml.nvmlInit_v2() && !ml.nvmlDeviceGetHandleByIndex_v2(3, &slow));
	WANT(now_ms() - from >= 50);
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(0, &other));
	WANT(!ml.nvmlShutdown());
	return 0;
}

static int wait_is_broken(void)
{
	nvmlEventData_t data;
	nvmlEventSet_t set;
	nvmlDevice_t device;

	WANT(!ml.nvmlInit_v2() &&
	     !ml.nvmlDeviceGetHandleByIndex_v2(0, &device));
	WANT(!ml.nvmlEventSetCreate(&set));
	WANT(!ml.nvmlDeviceRegisterEvents(device, NVML_EVENT_XID, set));
	WANT(ml.nvmlEventSetWait_v2(set, &data, 10000) == NVML_ERROR_UNKNOWN);
	WANT(!ml.nvmlEventSetFree(set) && !ml.nvmlShutdown());
	return 0;
}

static int call_is_missing(void)
{
	nvmlDevice_t device;
	unsigned int minor;

	WANT(!ml.nvmlInit_v2() &&
	     !ml.nvmlDeviceGetHandleByIndex_v2(0, &device));
	WANT(ml.nvmlDeviceGetMinorNumber(device, &minor) ==
	     NVML_ERROR_FUNCTION_NOT_FOUND);
	WANT(!ml.nvmlShutdown());
	return 0;
}

/* Hears of what the test posts, of its own card alone. */
static int hear(void)
{
	nvmlEventData_t data = { 0 };
	nvmlDevice_t device, other;
	nvmlEventSet_t set;

	WANT(!ml.nvmlInit_v2());
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(3, &device));
	WANT(!ml.nvmlEventSetCreate(&set));
	WANT(!ml.nvmlDeviceRegisterEvents(device, NVML_EVENT_XID, set));
	/* A second node that we hold tells the test to go on. */
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(2, &other));
	WANT(!ml.nvmlEventSetWait_v2(set, &data, 20000));
	WANT(data.eventType == NVML_EVENT_XID && data.eventData == 48);
	WANT(data.device == device);
	WANT(!ml.nvmlEventSetWait_v2(set, &data, 20000));
	WANT(data.eventData == 79);
	WANT(!ml.nvmlEventSetFree(set) && !ml.nvmlShutdown());
	return 0;
}

/* Holds two cards until told to let go, and is still there afterwards. */
static int hold_nodes(void)
{
	nvmlDevice_t device;
	int sig;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	WANT(!ml.nvmlInit_v2());
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(0, &device));
	WANT(!ml.nvmlDeviceGetHandleByIndex_v2(1, &device));
	WANT(!sigwait(&set, &sig) && !ml.nvmlShutdown());
	WANT(!sigwait(&set, &sig));
	return 0;
}

static const struct scene_part parts[] = {
	{ "no driver", NULL, no_driver },
	{ "no card", NULL, no_card },
	{ "one is lost", NULL, one_is_lost },
	{ "memory is hidden", NULL, memory_is_hidden },
	{ "one is slow", NULL, one_is_slow },
	{ "wait is broken", NULL, wait_is_broken },
	{ "call is missing", NULL, call_is_missing },
	{ "hear", NULL, hear },
	{ "hold nodes", NULL, hold_nodes },
};

/* ---- scenes */

static void each_part_meets_its_fault(void)
{
	/* Row 0 is the last for NVML. */
	static const struct {
		const char *node, *plan, *part;
	} cases[] = {
		{ "mixed.yaml", NULL, "no driver" },
		{ "cpu-only.yaml", NULL, "no card" },
		{ "mixed.yaml", "row 0: lost", "one is lost" },
		{ "mixed.yaml", "row 0: nvml lost", "one is lost" },
		{ "unified.yaml", "row 0: nvml memory not supported",
		  "memory is hidden" },
		{ "mixed.yaml", "row 0: nvml slow 50 ms", "one is slow" },
		{ "mixed.yaml", "nvml event wait fails", "wait is broken" },
		{ "mixed.yaml", "symbol missing nvmlDeviceGetMinorNumber",
		  "call is missing" },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		scene_run(cases[i].node, cases[i].plan, cases[i].part);
}

static void events_go_to_who_listens(void)
{
	struct scene scene;
	pid_t pid;

	if (!scene_set(&scene, "mixed.yaml", "row 0: xid 31"))
		return;
	pid = scene_begin(&scene, "hear", NULL);
	OK(scene_holds(&scene, pid, 2));
	scene_add(&scene, "row 1: xid 95");
	scene_add(&scene, "row 0: xid 48; row 0: xid 79");
	EQ(scene_end(pid), 0);
	scene_clear(&scene);
}

static void nodes_are_held_to_the_shutdown(void)
{
	struct scene scene;
	pid_t pid;

	if (!scene_set(&scene, "mixed.yaml", NULL))
		return;
	pid = scene_begin(&scene, "hold nodes", NULL);
	OK(scene_holds(&scene, pid, 2));
	kill(pid, SIGUSR1);
	OK(scene_holds(&scene, pid, 0));
	kill(pid, SIGUSR1);
	EQ(scene_end(pid), 0);
	scene_clear(&scene);
}

/* No number of a card is another's by accident. */
static void every_order_is_its_own(void)
{
	uint32_t by_nvml[FAKE_GPUS], by_place[FAKE_GPUS], twins = 0;
	struct scene scene;

	if (!scene_set(&scene, "eight-gpu.yaml", NULL))
		return;
	EQ(scene.hw.board->n_gpus, 8);
	for (uint32_t i = 0; i < 8; i++) {
		const struct fake_gpu *g = &scene.hw.board->gpus[i];

		by_nvml[i] = g->nvml_index;
		by_place[i] = 0;
		for (uint32_t j = 0; j < 8; j++) {
			const struct fake_gpu *o = &scene.hw.board->gpus[j];

			by_place[i] +=
				o->domain < g->domain ||
				(o->domain == g->domain && o->bus < g->bus);
			twins += j < i && memcmp(o->uuid, g->uuid, 16) == 0;
		}
	}
	EQ(twins, 0);
	OK(memcmp(by_nvml, by_place, 8 * sizeof(by_nvml[0])) != 0);
	OK(by_place[0] != 0 && by_nvml[0] != 0);
	scene_clear(&scene);
}

TAP_CASE_ARGS(argc, argv)
{
	if (argc > 1)
		return load() ? scene_play(argv[1], parts, COUNT(parts)) : 251;
	scene_find_libraries();
	each_part_meets_its_fault();
	events_go_to_who_listens();
	nodes_are_held_to_the_shutdown();
	every_order_is_its_own();
	return tap_done();
}

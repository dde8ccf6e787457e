/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * An engine that allocates for itself, in a process far below the one that has
 * reserved its memory: what it has is not kept free for it once more.  Where
 * the driver does not tell what it has, all of the reservation is kept free,
 * and the row says why.
 */

#include <sched.h>
#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/card_user.h"
#include "tests/support/cuda_agent.h"
#include "tests/support/run.h"
#include "tests/support/sysfs_tree.h"

#define GIB (UINT64_C(1) << 30)

static struct cuda_scene scene;
static struct gpumap *map;

static const char *hardware(void)
{
	return strchr(scene.hardware, '=') + 1;
}

static uint32_t card(void)
{
	struct gpumap_device device = story_device(map, 0);

	return cuda_scene_gpu(&scene, &device);
}

/* Returns as gpumap_plan_make(). */
static int reserve(struct gpumap *by, const char *name, uint64_t bytes,
		   uint32_t flags)
{
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = name,
		.flags = GPUMAP_PLAN_COMMIT | flags,
		.setting = GPUMAP_SETTING_MANUAL,
		.text = "0:1",
		.n_layers = 1,
		.layer_bytes = &bytes,
	};
	struct gpumap_plan plan = { .size = sizeof(plan) };

	return gpumap_plan_make(by, &request, &plan, NULL, 0, NULL, 0);
}

static void hold_two(void)
{
	struct gpumap *mine = story_attach(&agent);

	if (mine == NULL ||
	    reserve(mine, "engine", 2 * GIB, GPUMAP_PLAN_HELD) != 0)
		_exit(1);
}

static bool uses(uint64_t bytes)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_device device;

	do {
		story_nap(1000);
		device = story_device(map, 0);
	} while (device.used_by_holders != bytes && story_now() < until);
	return EQ(device.used_by_holders, bytes);
}

static bool tells(uint32_t figures)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_device device;

	do {
		story_nap(1000);
		device = story_device(map, 0);
	} while (device.figures != figures && story_now() < until);
	return EQ(device.figures, figures);
}

static uint64_t may_be_reserved(void)
{
	struct gpumap_device device = story_device(map, 0);
	uint64_t kept = device.reserved_bytes - device.used_by_holders;

	return device.free_bytes > kept ? device.free_bytes - kept : 0;
}

/* The machine's own word. */
static uint64_t scene_free(void)
{
	return cuda_scene_free(&scene, card());
}

static bool is_left(uint64_t bytes)
{
	STORY_WAIT_WHILE(may_be_reserved() != bytes);
	return EQ(may_be_reserved(), bytes);
}

static void what_it_has_is_credited(void)
{
	struct card_user engine, stranger;
	uint64_t before, reserved;

	OK(tells(GPUMAP_FIGURES_KNOWN));
	if (!card_user_start_as(&engine, hardware(), card(), 3, hold_two))
		return;
	reserved = story_device(map, 0).reserved_bytes;
	OK(reserved >= 2 * GIB);
	before = may_be_reserved();
	card_user_has(&engine, GIB);
	OK(uses(GIB));
	EQ(may_be_reserved(), before);
	card_user_has(&engine, 4 * GIB);
	OK(uses(reserved));
	EQ(may_be_reserved(), before + reserved - 4 * GIB);
	card_user_has(&engine, GIB / 2);
	OK(uses(GIB / 2));
	EQ(may_be_reserved(), before);

	/* A stranger's memory is missing, and of no reservation. */
	card_user_start(&stranger, hardware(), card(), 2);
	card_user_has(&stranger, GIB);
	OK(is_left(before - GIB));
	OK(uses(GIB / 2));
	card_user_end(&stranger);

	card_user_end(&engine);
	OK(uses(0));
	EQ(story_device(map, 0).reserved_bytes, 0);
}

static void the_list_names_it(void)
{
	struct gpumap_reservation has[4] = { { .size = sizeof(has[0]) } };
	struct card_user engine;
	json_t *json;

	if (!card_user_start_as(&engine, hardware(), card(), 2, hold_two))
		return;
	card_user_has(&engine, GIB);
	OK(uses(GIB));
	EQ(gpumap_reservation_list(map, has, 4), 1);
	STR(has[0].name, "engine");
	EQ(has[0].row, 0);
	EQ(has[0].pid, engine.first);
	EQ(has[0].bytes, story_device(map, 0).reserved_bytes);
	EQ(has[0].own_bytes, GIB);
	EQ(has[0].session_bytes, 0);
	EQ(CTL("who"), DONE);
	OK(prints("engine "));
	OK(!prints("counts twice"));
	EQ(CTL("devices"), DONE);
	OK(prints(" 1.0 GiB "));
	EQ(CTL("who", "--json"), DONE);
	json = object();
	EQ(number(json_array_get(
			  list(json_array_get(list(json, "reservations", 1), 0),
			       "rows", 1),
			  0),
		  "used_bytes"),
	   GIB);
	json_decref(json);

	cuda_scene_add(&scene, "row %u: nvml processes refused", card());
	OK(tells(GPUMAP_FIGURES_REFUSED));
	EQ(CTL("who"), DONE);
	OK(prints("row 0: the driver does not tell what processes have: "));
	EQ(CTL("devices", "--json"), DONE);
	OK(prints("\"no_figures\":\"the driver does not tell what "));
	cuda_scene_mend(&scene);
	OK(tells(GPUMAP_FIGURES_KNOWN));
	card_user_end(&engine);
	OK(uses(0));
}

/* The engine and its children have pid 1 and on there; the agent sees them as
 * what they are on the node, and so does NVML. */
static void a_container_s_memory_is_credited(void)
{
	struct gpumap_reservation has[4] = { { .size = sizeof(has[0]) } };
	int pids = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	struct card_user engine;
	bool started;

	if (unshare(CLONE_NEWPID) != 0) {
		SKIP(1, "a pid namespace needs root");
		close(pids);
		return;
	}
	started = card_user_start_as(&engine, hardware(), card(), 3, hold_two);
	OK(setns(pids, CLONE_NEWPID) == 0);
	close(pids);
	if (!started)
		return;
	EQ(engine.last, 3);
	card_user_has(&engine, GIB);
	OK(uses(GIB));
	EQ(gpumap_reservation_list(map, has, 4), 1);
	EQ(has[0].pid, engine.first);
	EQ(has[0].own_bytes, GIB);
	card_user_end(&engine);
	OK(uses(0));
}

static void others_may_have_the_rest(void)
{
	struct card_user engine;
	uint64_t all = scene_free(), least;

	OK(tells(GPUMAP_FIGURES_KNOWN));
	OK(is_left(all));
	if (!card_user_start_as(&engine, hardware(), card(), 2, hold_two))
		return;
	card_user_has(&engine, 2 * GIB);
	OK(uses(2 * GIB));
	/* A plan keeps a fiftieth of what there is free, at least 512 MiB. */
	least = all - story_device(map, 0).reserved_bytes - all / 50 - GIB;
	EQ(reserve(map, "other", least, 0), 0);
	EQ(gpumap_layers_release(map, "other"), 0);
	card_user_end(&engine);
	OK(uses(0));
}

static void what_is_not_told_is_kept_free(void)
{
	static const struct {
		const char *fault;
		uint32_t figures;
	} cases[] = {
		{ "nvml processes refused", GPUMAP_FIGURES_REFUSED },
		{ "nvml processes without bytes", GPUMAP_FIGURES_PARTLY },
		{ "nvml processes without pids", GPUMAP_FIGURES_KNOWN },
	};
	struct card_user engine;

	OK(tells(GPUMAP_FIGURES_KNOWN));
	if (!card_user_start_as(&engine, hardware(), card(), 2, hold_two))
		return;
	card_user_has(&engine, GIB);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		OK(uses(GIB));
		cuda_scene_add(&scene, "row %u: %s", card(), cases[i].fault);
		OK(tells(cases[i].figures));
		OK(uses(0));
		cuda_scene_mend(&scene);
		OK(tells(GPUMAP_FIGURES_KNOWN));
	}
	OK(uses(GIB));
	card_user_end(&engine);
	OK(uses(0));
}

static void pin_kept(void)
{
	struct gpumap *mine = story_attach(&agent);
	struct gpumap_view view;
	uint64_t pin;

	if (mine == NULL || gpumap_layers_pin(mine, "kept", &view, &pin) != 0)
		_exit(1);
}

/* The agent sees another user, and the machine's file root. */
static void pin_kept_as_another(void)
{
	if (seteuid(54321) != 0)
		_exit(1);
	pin_kept();
	if (seteuid(0) != 0)
		_exit(1);
}

/* No process holds the map: those of its user that pin it use it. */
static void what_uses_a_map_is_credited(void)
{
	struct card_user engine, second, other;

	OK(tells(GPUMAP_FIGURES_KNOWN));
	EQ(reserve(map, "kept", 2 * GIB, 0), 0);
	if (!card_user_start_as(&engine, hardware(), card(), 2, pin_kept) ||
	    !card_user_start_as(&second, hardware(), card(), 1, pin_kept))
		return;
	card_user_has(&engine, GIB / 2);
	OK(uses(GIB / 2));
	card_user_has(&second, GIB);
	OK(uses(3 * GIB / 2));
	if (geteuid() == 0) {
		card_user_start_as(&other, hardware(), card(), 1,
				   pin_kept_as_another);
		card_user_has(&other, GIB / 4);
		OK(is_left(scene_free() - GIB / 2 -
			   (story_device(map, 0).reserved_bytes - 2 * GIB)));
		EQ(story_device(map, 0).used_by_holders, 3 * GIB / 2);
		card_user_end(&other);
	}
	/* The next agent finds the pins again. */
	agent_kill(&agent, SIGKILL);
	if (!OK(agent_start(&agent)))
		return;
	OK(uses(3 * GIB / 2));
	card_user_end(&second);
	OK(uses(GIB / 2));
	/* They are of this map, and not of the next. */
	EQ(reserve(map, "kept", 2 * GIB, 0), 0);
	card_user_has(&engine, GIB);
	OK(is_left(scene_free() - story_device(map, 0).reserved_bytes));
	EQ(story_device(map, 0).used_by_holders, 0);
	EQ(gpumap_layers_release(map, "kept"), 0);
	card_user_end(&engine);
}

/* As gpumapctl's command: have memory of the card, until there is an end. */
static int be_engine(const char *gpu, const char *bytes)
{
	struct fake_hardware hw;

	if (fake_hardware_join(false, &hw) != 0)
		return 1;
	fake_lock(&hw);
	hw.self->holds |= UINT32_C(1) << atoi(gpu);
	if (!fake_charge(&hw, (uint32_t)atoi(gpu), strtoull(bytes, NULL, 10)))
		return 1;
	fake_unlock(&hw);
	puts("up");
	fflush(stdout);
	pause();
	return 0;
}

static void a_command_uses_its_map(void)
{
	char self[512] = "", gpu[16], bytes[32];
	struct run_job job;

	OK(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	snprintf(gpu, sizeof(gpu), "%u", card());
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)GIB);
	setenv("GPUMAP_FAKE_HARDWARE", hardware(), 1);
	EQ(reserve(map, "kept", 2 * GIB, 0), 0);
	OK(tells(GPUMAP_FIGURES_KNOWN));
	RUN_START(&job, "--map", "kept", "--cache-dir", "/tmp", "--", self,
		  "engine", gpu, bytes);
	OK(run_printed(&job, job.out, "up\n"));
	OK(uses(GIB));
	kill(job.pid, SIGTERM);
	EQ(run_end(&job), -SIGTERM);
	STR(err, "");
	OK(uses(0));
	EQ(gpumap_layers_release(map, "kept"), 0);
	unsetenv("GPUMAP_FAKE_HARDWARE");
}

/* The next agent finds the holder again, and then what it has. */
static void an_agent_may_die(void)
{
	struct card_user engine;

	if (!card_user_start_as(&engine, hardware(), card(), 2, hold_two))
		return;
	card_user_has(&engine, GIB);
	OK(uses(GIB));
	agent_kill(&agent, SIGKILL);
	if (!OK(agent_start(&agent)))
		return;
	OK(uses(GIB));
	OK(story_device(map, 0).reserved_bytes >= 2 * GIB);
	card_user_end(&engine);
	OK(uses(0));
}

static void another_namespace_tells_nothing(void)
{
	struct card_user engine;

	tree_unlink("proc/self/ns/pid");
	tree_link("proc/self/ns/pid", "pid:[4026532001]");
	OK(tells(GPUMAP_FIGURES_NAMESPACE));
	if (!card_user_start_as(&engine, hardware(), card(), 1, hold_two))
		return;
	card_user_has(&engine, GIB);
	OK(is_left(scene_free() - story_device(map, 0).reserved_bytes));
	EQ(story_device(map, 0).used_by_holders, 0);
	EQ(story_device(map, 0).figures, GPUMAP_FIGURES_NAMESPACE);
	card_user_end(&engine);
}

TAP_CASE_ARGS(argc, argv)
{
	char config[160];

	if (argc == 4)
		return be_engine(argv[2], argv[3]);
	if (!tree_begin())
		return tap_done();
	chmod(tree.root, 0755);
	tree_link("proc/self/ns/pid", "pid:[4026531836]");
	snprintf(config, sizeof(config), "sysfs = %s\n", tree.root);
	if (!cuda_scene_make(&scene, "mixed.yaml", NULL))
		return tap_done();
	cuda_scene_agent(&scene, &agent, config, "[agent]\nrefresh = 20ms\n");
	if (OK(agent_start(&agent)) && (map = story_attach(&agent)) != NULL) {
		what_it_has_is_credited();
		the_list_names_it();
		a_container_s_memory_is_credited();
		others_may_have_the_rest();
		what_is_not_told_is_kept_free();
		what_uses_a_map_is_credited();
		a_command_uses_its_map();
		an_agent_may_die();
		another_namespace_tells_nothing();
		gpumap_detach(map);
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	agent_remove(&agent);
	cuda_scene_end(&scene);
	tree_end();
	return tap_done();
}

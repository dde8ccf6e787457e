/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The watchers among enemies: killed in parts, without a descriptor to spare,
 * and asked for what comes to nothing.
 */

#include <sys/resource.h>

#include "tests/support/probe_rig.h"

#define CHILDREN 64

static const char *const quick[] = { "--refresh", "10ms",    "--limit",
				     "500ms",     "--sysfs", "/nonexistent",
				     NULL };

/* So that who is stopped is ended soon. */
static const char *const hasty[] = { "--refresh", "10ms",    "--limit",
				     "1s",        "--sysfs", "/nonexistent",
				     NULL };

static int children_of(pid_t pid, pid_t ret_pids[CHILDREN])
{
	char path[64], text[4096];
	int n = 0, used;
	char *at = text;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	file = fopen(path, "r");
	if (!file)
		return -1;
	used = (int)fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[used] = '\0';
	while (n < CHILDREN) {
		char *end;
		long child = strtol(at, &end, 10);

		if (end == at)
			break;
		ret_pids[n++] = (pid_t)child;
		at = end;
	}
	return n;
}

static bool all_are_usable(struct probe *p, const struct scene *scene)
{
	for (uint32_t i = 0; i < scene->hw.board->n_gpus; i++)
		if (probe_gpu(p, scene, i)->health != GM_PROBE_USABLE)
			return false;
	return true;
}

static bool begin_with(struct scene *scene, struct probe *p,
		       const char *const *options)
{
	if (!scene_set(scene, "mixed.yaml", NULL) ||
	    !probe_start(p, scene, options))
		return false;
	UNTIL(p, p->n_listed == 1);
	UNTIL(p, all_are_usable(p, scene));
	return true;
}

static bool begin(struct scene *scene, struct probe *p)
{
	return begin_with(scene, p, quick);
}

static void finish(struct probe *p, struct scene *scene)
{
	EQ(p->is_closed, false);
	EQ(probe_end(p), 0);
	probe_nobody_left(scene);
	scene_clear(scene);
}

/* A part of the probe that dies is started again. */
static void parts_are_killed(void)
{
	pid_t pids[CHILDREN];
	struct scene scene;
	struct probe p;
	uint32_t n;

	if (!begin(&scene, &p))
		return;
	for (int round = 0; round < 4; round++) {
		int found = children_of(p.pid, pids);

		if (found < 0) {
			SKIP(1, "this kernel does not list children");
			break;
		}
		for (int i = 0; i < found; i++)
			kill(pids[i], round % 2 ? SIGTERM : SIGKILL);
		UNTIL(&p, !all_are_usable(&p, &scene));
		UNTIL(&p, all_are_usable(&p, &scene));
	}
	n = probe_gpu(&p, &scene, 0)->n_moving;
	UNTIL(&p, probe_gpu(&p, &scene, 0)->n_moving > n + 3);
	EQ(p.n_listed, 1);
	EQ(p.n_seen, 4);
	finish(&p, &scene);
}

/* One that was stopped is one that hangs. */
static void a_part_is_stopped(void)
{
	pid_t pids[CHILDREN];
	struct scene scene;
	struct probe p;
	int found;

	if (!begin_with(&scene, &p, hasty))
		return;
	/* Let those that ask once be through. */
	UNTIL(&p, p.n_peers >= 12);
	found = children_of(p.pid, pids);
	if (found < 1) {
		SKIP(1, "this kernel does not list children");
	} else {
		kill(pids[0], SIGSTOP);
		UNTIL(&p, !all_are_usable(&p, &scene));
		UNTIL(&p, all_are_usable(&p, &scene));
	}
	finish(&p, &scene);
}

static void the_whole_is_killed(void)
{
	struct scene scene;
	struct probe p;

	if (!begin(&scene, &p))
		return;
	kill(p.pid, SIGKILL);
	EQ(probe_end(&p), -SIGKILL);
	probe_nobody_left(&scene);
	scene_clear(&scene);
}

/* Hung up at any moment of its life. */
static void gpumapd_dies(void)
{
	struct scene scene;
	struct probe p;

	if (!scene_set(&scene, "eight-gpu.yaml", NULL))
		return;
	for (int i = 0; i < 12; i++) {
		if (!probe_start(&p, &scene, quick))
			break;
		probe_pump(&p, 0);
		nanosleep(&(struct timespec){ .tv_nsec = i * 4000000 }, NULL);
		EQ(probe_end(&p), 0);
	}
	probe_nobody_left(&scene);
	scene_clear(&scene);
}

/* The last request counts. */
static void orders_come_thick_and_fast(void)
{
	struct scene scene;
	struct probe p;

	if (!begin(&scene, &p))
		return;
	for (int i = 0; i < 200; i++) {
		probe_say(&p, i % 3 ? PROBE_RELEASE : PROBE_RESUME,
			  scene.hw.board->gpus[i % 4].uuid);
		probe_pump(&p, 0);
	}
	for (uint32_t i = 0; i < 4; i++)
		probe_say(&p, PROBE_RESUME, scene.hw.board->gpus[i].uuid);
	UNTIL(&p, probe_holders(&scene, 0) && probe_holders(&scene, 1) &&
			  probe_holders(&scene, 2) && probe_holders(&scene, 3));
	UNTIL(&p, all_are_usable(&p, &scene));
	finish(&p, &scene);
}

/* No descriptors: what cannot be started now is started later. */
static void descriptors_are_scarce(void)
{
	struct rlimit old, few = { 12, 12 };
	struct scene scene;
	struct probe p;

	if (!scene_set(&scene, "eight-gpu.yaml", NULL) ||
	    !EQ(getrlimit(RLIMIT_NOFILE, &old), 0) ||
	    !probe_start(&p, &scene, quick))
		return;
	few.rlim_max = old.rlim_max;
	/* At some moment of its start. */
	EQ(prlimit(p.pid, RLIMIT_NOFILE, &few, NULL), 0);
	for (int i = 0; i < 10; i++)
		probe_pump(&p, 20);
	EQ(prlimit(p.pid, RLIMIT_NOFILE, &old, NULL), 0);
	if (p.is_closed) {
		EQ(p.last.type, PROBE_BROKEN);
		EQ(probe_end(&p), 1);
		probe_nobody_left(&scene);
		scene_clear(&scene);
		return;
	}
	UNTIL(&p, all_are_usable(&p, &scene));
	UNTIL(&p, p.n_listed == 1);
	finish(&p, &scene);
}

static void run_badly(const char *const *argv, bool has_socket)
{
	const char *program = getenv("GPUMAP_PROBE");
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (!has_socket)
			close(GM_PROBE_FD);
		if (!freopen("/dev/null", "w", stderr))
			_exit(126);
		execv(program ? program : "agent/probe/gpumap-probe",
		      (char *const *)argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 2);
}

static void wrong_words_are_refused(void)
{
	static const char *const lines[][5] = {
		{ "gpumap-probe", NULL },
		{ "gpumap-probe", "--census", NULL },
		{ "gpumap-probe", "--census", "--refresh", "20ms", NULL },
		{ "gpumap-probe", "--refresh", "-1", NULL },
		{ "gpumap-probe", "--refresh", "99999999999999999999", NULL },
		{ "gpumap-probe", "--refresh", "10m", NULL },
		{ "gpumap-probe", "--refresh", "", NULL },
		{ "gpumap-probe", "--watch", "64", NULL },
		{ "gpumap-probe", "--watch", "1x", NULL },
		{ "gpumap-probe", "--census", "--driver", "PCI_BUS_ID", NULL },
		{ "gpumap-probe", "--nothing", NULL },
		{ "gpumap-probe", "something", NULL },
		{ "gpumap-probe", "--uid", "4294967295", NULL },
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		run_badly(lines[i], false);
}

TAP_CASE()
{
	scene_find_libraries();
	parts_are_killed();
	a_part_is_stopped();
	the_whole_is_killed();
	gpumapd_dies();
	orders_come_thick_and_fast();
	descriptors_are_scarce();
	wrong_words_are_refused();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Lookups make no system call: a child that may make none but read, write and
 * exit looks up a million layers and lives to say so.
 */

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "gpumap.h"
#include "tests/support/segment_file.h"
#include "tests/support/tap.h"

#define LAYERS  80
#define LOOKUPS 1000000

static struct segment_file file;
static struct gpumap *map;

static void publish(uint32_t first_row)
{
	static uint32_t rows[LAYERS];
	struct gm_charge_image charge = { .row = first_row };
	struct gm_layers layers = { .name = "model",
				    .spec = "80",
				    .n_layers = LAYERS,
				    .n_rows = 1,
				    .rows = rows,
				    .charges = &charge };

	for (uint32_t i = 0; i < LAYERS; i++)
		rows[i] = (first_row + i) % 2;
	segment_layers(&file.segment, 3, &layers);
}

/* exit_group, which exit() and _exit() make, is not allowed. */
static void leave(int status)
{
	syscall(SYS_exit, status);
}

/* Not the health: strict mode takes the clock away as well (on x86 it makes
 * reading the time stamp counter a fault), system call or not. */
static bool read_everything(void)
{
	struct gpumap_device device = { .size = sizeof(device) };
	struct gpumap_layers layers = { .size = sizeof(layers) };
	struct gpumap_choice choice = { .size = sizeof(choice) };
	struct gpumap_policy_view policy;
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t rows[LAYERS], cursor = 0;

	return gpumap_device_count(map) == 1 &&
	       gpumap_device_read(map, 0, &device) == 0 &&
	       gpumap_device_find(map, device.uuid) == 0 &&
	       gpumap_device_choose(map, &choice, rows, LAYERS) == 1 &&
	       gpumap_policy_view(map, 0, &policy) == 0 &&
	       gpumap_worth(&policy, GPUMAP_WORK_FILL, UINT64_MAX) == 1 &&
	       gpumap_layers_next(map, &cursor, name) == 1 &&
	       gpumap_layers_read(map, name, &layers, rows, NULL, LAYERS, NULL,
				  0) == 0 &&
	       gpumap_strerror(-EAGAIN) != NULL;
}

/* The parent publishes all the while, so views are refreshed here too. */
static void confined(const gm_a32 *go)
{
	struct gpumap_view view;
	uint32_t again = 0;

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
		leave(77);
	if (!read_everything() || gpumap_layers_view(map, "model", &view) != 0)
		leave(1);
	for (uint32_t i = 0; i < LOOKUPS; i++) {
		int row = gpumap_view_get(&view, i % LAYERS);

		if (row == -EAGAIN) {
			if (gpumap_view_refresh(map, &view) != 0)
				leave(2);
			again++;
			i--;
		} else if (row < 0 || row > 1) {
			leave(3);
		}
		/* No publication may be missed: wait for the first. */
		if (i == LOOKUPS / 2 && gm_get(go) != 0 && again == 0)
			i--;
	}
	leave(again > 0 ? 0 : 4);
}

static void a_million_lookups_make_no_system_call(void)
{
	gm_a32 *go = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = -1;
	pid_t child;

	gm_put(go, 1);
	child = fork();
	if (child == 0)
		confined(go);
	for (uint32_t i = 0; waitpid(child, &status, WNOHANG) == 0; i++) {
		publish(i % 2);
		usleep(200);
	}
	munmap(go, 4096);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		SKIP(2, "this kernel refuses strict mode");
		return;
	}
	OK(!WIFSIGNALED(status));
	EQ(WEXITSTATUS(status), 0);
}

/* Check that the filter works. */
static void strict_mode_is_strict(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
			leave(77);
		syscall(SYS_getppid);
		leave(0);
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP(1, "this kernel refuses strict mode");
	else
		OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .runtime_dir = "/nonexistent" };

#ifdef GM_SANITIZED
	SKIP(3, "sanitizers make system calls of their own");
	return tap_done();
#endif
	if (segment_file_make("strict", &file) != 0) {
		SKIP(3, "no segment in /dev/shm");
		return tap_done();
	}
	segment_row(&file.segment, 0, "host");
	publish(0);
	opts.instance = file.instance;
	if (EQ(gpumap_attach(&opts, &map), 0)) {
		strict_mode_is_strict();
		a_million_lookups_make_no_system_call();
	}
	gpumap_detach(map);
	segment_file_remove(&file);
	return tap_done();
}

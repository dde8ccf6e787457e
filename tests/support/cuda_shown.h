/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_shown - the devices that the stand-in driver shows to a process with the
 * variables that gpumapctl printed.
 *
 * The driver answers, in a process of its own.
 */
#ifndef GM_TEST_SUPPORT_CUDA_SHOWN_H
#define GM_TEST_SUPPORT_CUDA_SHOWN_H

#include "agent/cuda/driver.h"
#include "tests/support/ctl.h"
#include "tests/support/cuda_agent.h"

static struct cuda_scene scene;

/* Rows that a map may have. */
static uint32_t rows[GPUMAP_ROWS_MAX], n_rows;
static struct gpumap_device devices[GPUMAP_ROWS_MAX];

static inline void list_rows(void)
{
	struct gpumap *map = story_attach(&agent);

	n_rows = 0;
	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		devices[row] = story_device(map, row);
		if (devices[row].kind == GPUMAP_DEVICE_CUDA &&
		    devices[row].state == GPUMAP_DEVICE_READY)
			rows[n_rows++] = row;
	}
	gpumap_detach(map);
}

/* ---- what the driver shows ----------------------------------------------- */

/* In the child: the rows that the driver shows, "3 5", or its error. */
static inline void look(char ret_text[64])
{
	const char *folders[] = { scene.driver, NULL };
	struct gm_library_where where = { .soname = "libcuda.so.1",
					  .folders = folders };
	char why[GM_LIBRARY_WHY_BYTES];
	static struct gm_driver cu;
	int n = 0, ret;
	size_t at = 0;

	ret = gm_driver_open_where(&where, &cu, why);
	if (ret == 0)
		ret = (int)cu.cuInit(0);
	if (ret == 0)
		ret = (int)cu.cuDeviceGetCount(&n);
	if (ret != 0)
		n = 0;
	snprintf(ret_text, 64, "%s", "");
	for (int i = 0; i < n; i++) {
		struct gm_cu_uuid uuid;
		uint32_t k = 0;

		cu.cuDeviceGetUuid(&uuid, i);
		while (k < n_rows &&
		       memcmp(devices[rows[k]].uuid, uuid.bytes, 16) != 0)
			k++;
		at += (size_t)snprintf(ret_text + at, 64 - at, "%s%u",
				       i > 0 ? " " : "",
				       k < n_rows ? rows[k] : 999);
	}
}

/* The same with variables as the last call printed them, one to a line. */
static inline const char *shown(void)
{
	static char text[64];
	int ends[2];
	pid_t pid;

	text[0] = '\0';
	if (!EQ(pipe2(ends, O_CLOEXEC), 0))
		return text;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		char seen[64], *line = strtok(out, "\n");

		for (; line != NULL; line = strtok(NULL, "\n"))
			putenv(line);
		putenv(scene.hardware);
		look(seen);
		_exit(write(ends[1], seen, sizeof(seen)) != sizeof(seen));
	}
	close(ends[1]);
	if (read(ends[0], text, sizeof(text)) != sizeof(text))
		text[0] = '\0';
	close(ends[0]);
	waitpid(pid, NULL, 0);
	return text;
}

#endif

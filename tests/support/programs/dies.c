/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Crashes while it is brought in. */

#include <gpumap/program.h>

static void __attribute__((constructor)) die(void)
{
	__builtin_trap();
}

static int run(const struct gpumap_program_tile *tile)
{
	(void)tile;
	return 0;
}

GPUMAP_PROGRAM(run);

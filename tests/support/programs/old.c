/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Made for another version. */

#include <gpumap/program.h>

static int run(const struct gpumap_program_tile *tile)
{
	(void)tile;
	return 0;
}

const struct gpumap_program gpumap_program = { GPUMAP_PROGRAM_ABI + 1, 0, run };

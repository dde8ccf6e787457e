/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Needs a function that no library has. */

#include <gpumap/program.h>

int nobody_has_this(uint64_t n);

static int run(const struct gpumap_program_tile *tile)
{
	return nobody_has_this(tile->n);
}

GPUMAP_PROGRAM(run);

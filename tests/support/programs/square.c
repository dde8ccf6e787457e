/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* dst[i] = scale * src[i] * src[i], where scale is its parameter, or 1. */

#include <errno.h>
#include <math.h>

#include <gpumap/program.h>

static int run(const struct gpumap_program_tile *tile)
{
	const float *src = tile->src;
	float *dst = tile->dst, scale = 1;

	if (tile->size < sizeof(*tile) || tile->n == 0 ||
	    tile->src_item_bytes != sizeof(*src) ||
	    tile->dst_item_bytes != sizeof(*dst))
		return -EINVAL;
	if (tile->params_bytes == sizeof(scale))
		scale = *(const float *)tile->params;
	for (uint64_t i = 0; i < tile->n; i++)
		dst[i] = scale * fabsf(src[i] * src[i]);
	return 0;
}

GPUMAP_PROGRAM(run);

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Byte k of an item of dst is byte k of its item of src, which begins again
 * where it is shorter, plus k; of no src, k. */

#include <gpumap/program.h>

static int run(const struct gpumap_program_tile *tile)
{
	const uint64_t to = tile->dst_item_bytes, from = tile->src_item_bytes;
	const unsigned char *src = tile->src;
	unsigned char *dst = tile->dst;

	for (uint64_t i = 0; i < tile->n; i++)
		for (uint64_t k = 0; k < to; k++)
			dst[i * to + k] =
				(unsigned char)(k +
						(from ? src[i * from + k % from]
						      : 0));
	return 0;
}

GPUMAP_PROGRAM(run);

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * reduce - SUM, MIN and MAX on host rows, piece after piece.
 *
 * The sum of floats depends on the order, which operators.h defines: chunks of
 * 1024 elements, within them 32 lanes, then the same over the chunks' results
 * until one is left.  The state between pieces is one unfinished chunk of each
 * level, so pieces may have any length and the state is small.  Every other
 * reduction has the same result in any order.
 */
#ifndef GM_REDUCE_H
#define GM_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/device/host_kernels.h"

#define GM_REDUCE_LANES  32u
#define GM_REDUCE_CHUNK  1024u
#define GM_REDUCE_LEVELS 8u /* the last has an element of 2^70 */

/* For one level: the chunk in progress, and the result of the last one. */
struct gm_reduce_level {
	uint64_t n; /* elements so far */
	double last;
	union {
		float f32[GM_REDUCE_LANES];
		double f64[GM_REDUCE_LANES];
	} lane;
};

struct gm_reduce {
	uint64_t n; /* elements so far */
	union {
		uint64_t sum;          /* of integers */
		unsigned char best[8]; /* as gm_host_kernels has it */
		struct gm_reduce_level level[GM_REDUCE_LEVELS];
	};
};

/* op: GPUMAP_OP_SUM, MIN or MAX; dtype: any. */
void gm_reduce_begin(struct gm_reduce *r, uint32_t op, uint32_t dtype);

/* The next @n elements. */
void gm_reduce_add(struct gm_reduce *r, const struct gm_host_kernels *kernels,
		   uint32_t op, uint32_t dtype, const void *src, uint64_t n);

/* dst	receives one element of the result's dtype; there was one at least */
void gm_reduce_end(struct gm_reduce *r, uint32_t op, uint32_t dtype, void *dst);

#endif

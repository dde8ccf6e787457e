/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * pipeline - distribute layers over the ranks of a pipeline.
 *
 * The distribution is by exact counts, by weights such as each rank's memory,
 * or even; rank 0 has the first layers.  With weights a rank gets the floor of
 * its share, and the remaining layers go one each to rank 0, 1, 2...: not to
 * the largest fraction, as in gm_split().  Forms, rules and error texts are
 * those of the hanzo engine, whose rings are configured so (RING_LAYER_SPLIT,
 * RING_MEM_GIB), also where weights are NaN, or sum to nothing or to infinity:
 * a share that is no number is 0.  Shares that sum above the model, as with a
 * negative weight beside a larger one, are an error here.
 */
#ifndef GM_PIPELINE_H
#define GM_PIPELINE_H

#include <stdint.h>

#include "lib/model/plan/error.h"

#define GM_PIPELINE_RANKS (1u << 20)

/*
 * gm_pipeline_split - compute the number of layers of each rank
 *
 * n_ranks	at most GM_PIPELINE_RANKS; 0 only for a model without layers
 * exact	"a,b,..": counts that sum to @n_layers, or NULL
 * weights	"a,b,..": if there are no counts, or NULL for equal ones
 * ret_counts	receives @n_ranks counts that sum to @n_layers
 *
 * Returns	0, -EINVAL, -E2BIG, -ENOMEM
 * Cost		a pass over the text and one over the ranks
 * Threads	any
 */
int gm_pipeline_split(uint64_t n_layers, uint32_t n_ranks, const char *exact,
		      const char *weights, uint64_t *ret_counts,
		      struct gm_plan_error *ret_err);

#endif

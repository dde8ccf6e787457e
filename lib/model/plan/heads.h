/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * heads - decide among how many ranks the heads of a model can be divided.
 *
 * A rank of tensor parallelism computes whole heads of attention, and has whole
 * heads of keys and values, or the same one as other ranks; a recurrence's
 * heads are never shared.  vLLM and SGLang refuse other numbers of ranks.
 */
#ifndef GM_HEADS_H
#define GM_HEADS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap/plan.h"
#include "lib/model/plan/error.h"

/*
 * gm_heads_check - can so many ranks divide the model's heads?
 *
 * ask		n_heads and caches are read; heads that are not known are
 *		taken to be divisible
 * ret_err	says which heads they are, and as a remedy the numbers of ranks,
 *		powers of two below @n_ranks, that can.  NULL: no text
 *
 * Returns	0, -EINVAL
 * Threads	any
 */
int gm_heads_check(const struct gpumap_plan_request *ask, uint32_t n_ranks,
		   struct gm_plan_error *ret_err);

#endif

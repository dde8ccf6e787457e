/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * isq - name the types that a model may be quantised to while it is loaded.
 *
 * Names, their short forms and the text of the error are those of mistral.rs
 * on anything but Metal.
 */
#ifndef GM_ISQ_H
#define GM_ISQ_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/model/plan/error.h"

enum gm_isq {
	GM_ISQ_Q4_0,
	GM_ISQ_Q4_1,
	GM_ISQ_Q5_0,
	GM_ISQ_Q5_1,
	GM_ISQ_Q8_0,
	GM_ISQ_Q8_1,
	GM_ISQ_Q2K,
	GM_ISQ_Q3K,
	GM_ISQ_Q4K,
	GM_ISQ_Q5K,
	GM_ISQ_Q6K,
	GM_ISQ_Q8K,
	GM_ISQ_HQQ8,
	GM_ISQ_HQQ4,
	GM_ISQ_FP8,
	GM_ISQ_AFQ8,
	GM_ISQ_AFQ6,
	GM_ISQ_AFQ4,
	GM_ISQ_AFQ3,
	GM_ISQ_AFQ2,
	GM_ISQ_F8Q8,
	GM_ISQ_MXFP4,
	GM_ISQ_N /* none of them: the number of types */
};

/*
 * gm_isq_parse - the type called @name: "q4k" in any case, or "4"
 *
 * Returns	0, -EINVAL
 * Threads	any
 */
int gm_isq_parse(const char *name, enum gm_isq *ret_isq,
		 struct gm_plan_error *ret_err);

/* Can CUDA devices compute with the type?  Threads: any. */
bool gm_isq_runs_on_cuda(enum gm_isq isq);

/* Describe a type that they cannot compute with, as mistral.rs does.  Returns
 * -EINVAL. */
int gm_isq_not_on_cuda(struct gm_plan_error *ret_err);

/* The type's name, such as "Q4K". */
const char *gm_isq_name(enum gm_isq isq);

/*
 * gm_isq_pack_factor - the factor by which weights shrink
 *
 * dtype_bytes	of one weight before, 1 to 8
 *
 * Returns	the whole number, at least 1, that mistral.rs divides by:
 *		rounded up, so that sizes come out a little low for most types
 * Threads	any
 */
uint32_t gm_isq_pack_factor(enum gm_isq isq, uint32_t dtype_bytes);

#endif

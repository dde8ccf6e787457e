/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * batch - answer requests in JSON, each with one answer in JSON.
 *
 * The fields are listed in gpumapctl(1) and are stable.  An answer is {"ok":
 * ...} or {"error": "text"}; every request has one.
 */
#ifndef GM_BATCH_H
#define GM_BATCH_H

#include <stddef.h>

#include "agent/plan/error.h"

enum gm_batch_kind {
	GM_BATCH_SPLIT,
	GM_BATCH_SPEC,
	GM_BATCH_PLAN,
	GM_BATCH_MESH,
	GM_BATCH_CHOOSE
};

/*
 * gm_batch_answer - answer one line
 *
 * line		@n bytes, without the end of the line
 *
 * Returns	the answer without the end of the line, to free(); NULL if out
 *		of memory
 * Threads	any
 */
char *gm_batch_answer(enum gm_batch_kind what, const char *line, size_t n);

/*
 * gm_batch_refusal - make the answer of a refusal
 *
 * Returns	{"error": text}, to free(); NULL if @err is want of memory, or
 *		memory is short
 * Threads	any
 */
char *gm_batch_refusal(const struct gm_plan_error *err);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* fuzz_plan.h - what holds of every error of lib/model/plan. */
#ifndef FUZZ_PLAN_H
#define FUZZ_PLAN_H

#include "lib/model/plan/error.h"
#include "tests/fuzz/fuzz.h"

static inline void check_error(int r, const struct gm_plan_error *err)
{
	MUST(r < 0 && err->code == r && err->text[0] != '\0');
	for (const char *s = err->text; *s; s++)
		MUST((unsigned char)*s >= ' ' && *s != 0x7f);
}

#endif

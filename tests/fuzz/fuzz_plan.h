/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* fuzz_plan.h - what holds of every answer of agent/plan, whatever was read. */
#ifndef FUZZ_PLAN_H
#define FUZZ_PLAN_H

#include "agent/plan/stack.h"
#include "tests/fuzz/fuzz.h"

static inline void check_error(int r, const struct gm_plan_error *err)
{
	MUST(r < 0 && err->code == r && err->text[0] != '\0');
	for (const char *s = err->text; *s; s++)
		MUST((unsigned char)*s >= ' ' && *s != 0x7f);
}

/* The layers among the tensors of a file with @bytes of them. */
static inline void check_stack(const struct gm_tensors *t, uint64_t bytes,
			       const struct gm_model_config *config)
{
	struct gm_plan_error err = { 0 };
	struct gm_stack stack;
	uint64_t sum = 0;
	int r = gm_stack_find("input", t, config, &stack, &err);

	if (r) {
		check_error(r, &err);
		return;
	}
	MUST(stack.n_layers > 0);
	MUST(config->n_layers == 0 || stack.n_layers == config->n_layers);
	for (uint32_t i = 0; i < stack.n_layers; i++)
		sum += stack.layer_bytes[i];
	MUST(sum <= bytes);
	free(stack.layer_bytes);
}

#endif

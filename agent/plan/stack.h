/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stack - find which of a model's tensors belong to which layer.
 *
 * A tensor belongs to layer N of a stack if its name reads
 *
 *	[PREFIX.]layers.N.REST	or with h or blk in the place of layers
 *
 * The first such word counts: experts inside a layer are part of it.  Names
 * with the same words before N make one stack.  A model may have more than one,
 * such as a vision tower's beside the language model's: the one with as many
 * layers as config.json states is the model's, or the largest of several such.
 */
#ifndef GM_STACK_H
#define GM_STACK_H

#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/model_config.h"
#include "agent/plan/safetensors.h"

struct gm_stack {
	uint32_t n_layers;
	uint64_t *layer_bytes; /* n_layers of them, for the caller to free() */
};

/*
 * gm_stack_find - find the layers of a model
 *
 * what		the model, for messages
 * tensors	in any order
 * config	the numbers must agree with it; layers stored beyond n_layers,
 *		up to n_extra, do not belong to the stack
 *
 * Returns	0
 *		-EINVAL	no layers, a layer without tensors, or not as many as
 *			@config says
 *		-E2BIG	a layer's number beyond GM_PLACEMENT_LAYERS
 *		-EOVERFLOW	layers of 2^64 bytes or more
 *		-ENOMEM
 * Threads	any
 */
int gm_stack_find(const char *what, const struct gm_tensors *tensors,
		  const struct gm_model_config *config,
		  struct gm_stack *ret_stack, struct gm_plan_error *ret_err);

#endif

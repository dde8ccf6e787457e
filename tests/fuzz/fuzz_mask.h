/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* fuzz_mask.h - what holds of every mask that a file is taken to hold. */
#ifndef FUZZ_MASK_H
#define FUZZ_MASK_H

#include "agent/mask/mask.h"
#include "agent/mask/mask_tensor.h"
#include "tests/fuzz/fuzz_plan.h"

static inline void check_mask(const struct gm_mask_tensor *t)
{
	uint64_t bytes = gm_mask_dtype_bytes(t->dtype);

	MUST(bytes > 0 && t->rank >= 2 && t->rank <= GM_MASK_TENSOR_RANK);
	for (uint32_t i = GM_MASK_TENSOR_RANK; i-- > 0;) {
		if (i >= t->rank) {
			MUST(t->shape[i] == 0 && t->strides[i] == 0);
			continue;
		}
		MUST(t->shape[i] > 0 && t->strides[i] == bytes);
		MUST(i + 2 >= t->rank || t->shape[i] == 1);
		bytes *= t->shape[i];
	}
	MUST(t->bytes == bytes);
}

#endif

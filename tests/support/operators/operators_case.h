/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * operators_case - what one run of an operator is given, for the tests that
 * hold implementations to operators_ref.h.
 */
#ifndef GM_TEST_SUPPORT_OPERATORS_CASE_H
#define GM_TEST_SUPPORT_OPERATORS_CASE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/cuda/operators.h"
#include "gpumap.h"
#include "tests/support/dice.h"
#include "tests/support/operators/operators_ref.h"

#define N_DTYPES (GPUMAP_DTYPE_U64 + 1)

enum numbers {
	ANY,      /* any bits, and hard ones among them */
	TAME,     /* none that swallows the others */
	ONE_HARD, /* tame but for one */
};

struct trial {
	uint32_t op, dtype, to;
	uint64_t n;
	uint32_t shift, src_shift, mask_shift; /* from a multiple of 64 */
	uint32_t blocks, threads;
	enum numbers numbers;
	bool in_place; /* dst is src */
};

/* ---- numbers ------------------------------------------------------------ */

uint64_t hard(uint32_t dtype);
uint64_t any_bits(void);
void throw_numbers(void *to, uint64_t n, uint32_t dtype, enum numbers numbers);
uint32_t out_dtype(const struct trial *t);
uint64_t out_n(const struct trial *t);
uint64_t alpha_bits(const struct trial *t, double alpha);

/* The parameters of a launch, from the arguments of the definition. */
uint32_t parameters(const struct trial *t, const struct ref_args *a,
		    uint64_t params[6]);

/* Run each kernel of the text.  @each gets the kernel's name last. */
void for_each_kernel(void (*each)(uint32_t op, uint32_t dtype, uint32_t to,
				  const char *name));

#endif

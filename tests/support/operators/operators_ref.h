/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * operators_ref - the built-in operators in plain C, as operators.h defines
 * them: what every other implementation must give, bit for bit but for NaNs.
 */
#ifndef GM_TEST_SUPPORT_OPERATORS_REF_H
#define GM_TEST_SUPPORT_OPERATORS_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parameters of a launch; each kernel uses some of them. */
struct ref_args {
	void *dst; /* any alignment, as src and mask */
	const void *src;
	uint64_t n;
	double alpha; /* exact in f32, for all but f64 */
	uint64_t pattern;
	const void *mask;
	uint64_t m, at;
};

/* enum gm_operator and gpumap_dtype; @to is of CAST. */
void ref_run(uint32_t op, uint32_t dtype, uint32_t to,
	     const struct ref_args *args);

/* The dtype of the result of a reduction. */
uint32_t ref_result(uint32_t op, uint32_t dtype);

/* Bytes of an element. */
size_t ref_bytes(uint32_t dtype);

/* Element i, as bits. */
uint64_t ref_load(const void *from, uint64_t i, uint32_t dtype);
void ref_store(void *to, uint64_t i, uint32_t dtype, uint64_t bits);

/* The same element: equal bits, or both NaN. */
bool ref_same(uint32_t dtype, uint64_t a, uint64_t b);

#endif

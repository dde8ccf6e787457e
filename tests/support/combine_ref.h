/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * combine_ref.h - what several ranks' elements become, by arithmetic of one
 * element at a time.  op: enum gpumap_reduce.
 */
#ifndef GM_TEST_SUPPORT_COMBINE_REF_H
#define GM_TEST_SUPPORT_COMBINE_REF_H

#include <math.h>
#include <string.h>

#include "tests/support/operators/operators_case.h"

bool is_float(uint32_t dtype);
uint64_t as(uint32_t from, uint32_t to, uint64_t bits);
float get_float(uint32_t dtype, const void *src, size_t i);
int64_t get_integer(uint32_t dtype, const void *src, size_t i);
uint64_t want_element(uint32_t op, uint32_t dtype, const void *const *src,
		      uint32_t ranks, size_t i);

#endif

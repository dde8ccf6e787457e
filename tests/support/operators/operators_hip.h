/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* operators_hip - the operators of ops.k by ops_hip.h, as C: each item of a
 * launch is a call. */
#ifndef GM_TEST_SUPPORT_OPERATORS_HIP_H
#define GM_TEST_SUPPORT_OPERATORS_HIP_H

#include "tests/fake/kernel.h"
#include "tests/support/operators/operators_ref.h"

/* As ref_run(), but for what the items of the launch do not reach. */
void operators_hip_run(struct fake_launch *launch, uint32_t op, uint32_t dtype,
		       uint32_t to, const struct ref_args *args);

#endif

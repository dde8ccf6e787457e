/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Kernels from outside the stand-in driver, as $GPUMAP_FAKE_KERNELS names. */

#include <stddef.h>

#include "tests/fake/kernel.h"

extern const struct fake_kernel gpumap_fake_kernels[];

/* at[i] = ~at[i], u8, every i below n */
static void invert(struct fake_launch *launch, const void *const *params)
{
	uint64_t n = *(const uint64_t *)params[1];
	uint8_t *at =
		launch->reach(launch, *(const uint64_t *)params[0], n, 1, true);

	for (uint64_t i = 0; at && i < n; i++)
		at[i] = (uint8_t)~at[i];
}

const struct fake_kernel gpumap_fake_kernels[] = {
	{ "extra_invert", "88", invert },
	{ "extra_mismatch", "4", invert },
	{ NULL, NULL, NULL },
};

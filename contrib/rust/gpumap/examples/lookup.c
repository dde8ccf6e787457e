/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The loop of lookup.rs in C, by the lookup of gpumap/view.h. */

#include <gpumap.h>

uint64_t lookups(const struct gpumap_view *view, const uint32_t *numbers,
		 uint64_t n);

/* Returns the sum of the entries at these indices, in which an error counts as
 * nothing. */
uint64_t lookups(const struct gpumap_view *view, const uint32_t *numbers,
		 uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		int entry = gpumap_view_get(view, numbers[i]);

		if (entry >= 0)
			sum += (uint64_t)entry;
	}
	return sum;
}

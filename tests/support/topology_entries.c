/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/topology_entries.h"

const struct gm_topology_entry *topology_layer(const struct gm_topology *t,
					       uint64_t layer)
{
	size_t low = 0, high = t->n_ranges;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (t->ranges[middle].end <= layer)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == t->n_ranges || t->ranges[low].start > layer)
		return NULL;
	return &t->ranges[low].entry;
}

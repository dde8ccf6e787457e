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

const struct gm_topology_entry *topology_tensor(const struct gm_topology *t,
						const char *name)
{
	for (size_t i = t->n_patterns; i-- > 0;)
		if (regexec(&t->patterns[i].regex, name, 0, NULL, 0) == 0)
			return &t->patterns[i].entry;
	return NULL;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/topology_entries.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

const char *topology_location(const struct gm_location *location,
			      char text[LOCATION_TEXT])
{
	static const char *const kinds[] = { [GM_LOCATION_CUDA] = "cuda",
					     [GM_LOCATION_METAL] = "metal",
					     [GM_LOCATION_OTHER] = "other" };

	if (location->kind == GM_LOCATION_CPU)
		return strcpy(text, "cpu");
	snprintf(text, LOCATION_TEXT, "%s[%" PRIu64 "]", kinds[location->kind],
		 location->ordinal);
	return text;
}

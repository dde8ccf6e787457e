/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* topology_entries - find the entry of a topology for a layer, and print the
 * device that it names. */
#ifndef GM_TEST_SUPPORT_TOPOLOGY_ENTRIES_H
#define GM_TEST_SUPPORT_TOPOLOGY_ENTRIES_H

#include "lib/model/plan/topology.h"

/* The entry for @layer, or NULL. */
const struct gm_topology_entry *topology_layer(const struct gm_topology *t,
					       uint64_t layer);

#define LOCATION_TEXT 32u /* bytes that suffice for every location */

/* "cuda[1]", in @text, which is returned. */
const char *topology_location(const struct gm_location *location,
			      char text[LOCATION_TEXT]);

#endif

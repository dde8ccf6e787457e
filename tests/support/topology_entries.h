/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* topology_entries - find the entry of a topology for a layer. */
#ifndef GM_TEST_SUPPORT_TOPOLOGY_ENTRIES_H
#define GM_TEST_SUPPORT_TOPOLOGY_ENTRIES_H

#include "lib/model/plan/topology.h"

/* The entry for @layer, or NULL. */
const struct gm_topology_entry *topology_layer(const struct gm_topology *t,
					       uint64_t layer);

#endif

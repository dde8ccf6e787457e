/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * map_kind - layer maps as a kind of object: what they promise, and their words
 * in files.
 */
#ifndef GM_DAEMON_MAP_MAP_KIND_H
#define GM_DAEMON_MAP_MAP_KIND_H

#include "agent/daemon/state/publish.h"
#include "shm/layers.h"

extern const struct gm_state_kind gm_map_kind;

/* The words of a map's block, without a version; to be freed.  NULL: no
 * memory. */
uint64_t *gm_map_kind_words(const struct gm_layers *layers);

#endif

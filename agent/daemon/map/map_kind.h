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

/*
 * gm_map_kind_publish - publish a layer map that has no file, or replace the
 * one of its name
 *
 * layers	owner_uid is the client's, as for gm_publish_prepare().
 *		published may be 0: now.  Not GM_OBJECT_HELD: that takes two
 *		steps.
 * ret_why	the error and its remedy
 *
 * Returns	0
 *		-ENODEV, -EOVERFLOW	as gm_ledger_admit(),
 *					gm_ledger_reservation()
 *		and as gm_publish_prepare()
 */
int gm_map_kind_publish(struct gm_daemon *d, const struct gm_layers *layers,
			char ret_why[GM_WHY_BYTES], uint64_t *ret_version);

#endif

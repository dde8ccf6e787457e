/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Gangs of nodes that meet in an etcd, while everything is killed.
 */

#include "tests/support/story.h"
#include "tests/support/tap.h"
#include "tests/system/sync/gang_history.h"

#define GANGS 40

TAP_CASE()
{
	struct sync_place place;

	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return tap_done();
	}
	gang_make(SYNC_TTL_MS);
	sync_place_etcd(&place);
	gang_begin(&place);
	gang_history_tell(&place, (unsigned int)story_rounds_or(GANGS));
	gang_end();
	etcd_remove(&place.server);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Gangs of nodes that meet in an etcd.
 */

#include "tests/support/tap.h"
#include "tests/system/sync/gang_stories.h"

TAP_CASE()
{
	struct sync_place place;

	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return tap_done();
	}
	gang_make(GANG_TTL_MS);
	sync_place_etcd(&place);
	gang_begin(&place);
	gang_stories_tell();
	gang_end();
	etcd_remove(&place.server);
	return tap_done();
}

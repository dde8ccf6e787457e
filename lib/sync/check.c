/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>

#include "lib/sync/cohort.h"

int gpumap_sync_check(struct gpumap_sync *sync)
{
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	ret = gm_sync_link_drain(sync);
	if (ret == 0 && sync->gang_lost) {
		gm_map_refuse(NULL, sync->gang_why);
		return gm_sync_link_end(sync, -ENOLINK);
	}
	if (ret == 0 && sync->lease_lost) {
		sync->lease_lost = false;
		gm_map_refuse(NULL, sync->lease_why);
		return gm_sync_link_end(sync, -ESTALE);
	}
	if (ret == 0)
		ret = gm_cohort_look(sync);
	if (ret == 0 && sync->cohort.moved)
		ret = gm_refuse(NULL, -ESTALE,
				"the epoch of cohort %s has moved on: a rank "
				"has ended, or was taken anew; join again",
				sync->cohort.name);
	return gm_sync_link_end(sync, ret);
}

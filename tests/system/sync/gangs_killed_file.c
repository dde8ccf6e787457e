/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Gangs of nodes that meet in a directory, while everything is killed.
 */

#include <stdio.h>

#include "tests/support/story.h"
#include "tests/support/tap.h"
#include "tests/system/sync/gang_history.h"

#define GANGS 40

TAP_CASE()
{
	struct sync_place place;
	char directory[96];

	gang_make(SYNC_TTL_MS);
	snprintf(directory, sizeof(directory), "%.80s/store",
		 gang_nodes[0].agent.dir);
	sync_place_file(&place, directory);
	gang_begin(&place);
	gang_history_tell(&place, (unsigned int)story_rounds_or(GANGS));
	gang_end();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Nodes that meet in a directory.
 */

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/tap.h"
#include "tests/system/sync/sync_stories.h"

static struct sync_place place;
static char aside[128];

static void take_away(void)
{
	OK(rename(place.directory, aside) == 0);
}

static void give_back(void)
{
	OK(rename(aside, place.directory) == 0);
}

TAP_CASE()
{
	char directory[96];

	sync_node_make(&stories_a, "a", NULL);
	sync_node_make(&stories_b, "b", NULL);
	snprintf(directory, sizeof(directory), "%.80s/store",
		 stories_a.agent.dir);
	snprintf(aside, sizeof(aside), "%s.away", directory);
	sync_place_file(&place, directory);
	stories_begin(&place);
	stories_tell();
	stories_start_without(take_away, give_back);
	stories_end();
	return tap_done();
}

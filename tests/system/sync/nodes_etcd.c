/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Nodes that meet in an etcd, which dies, and is compacted while a node is cut
 * off from it.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/nodes/store_rig.h"
#include "tests/support/story.h"
#include "tests/support/tap.h"
#include "tests/system/sync/sync_stories.h"

static struct sync_place place;

static void take_away(void)
{
	etcd_kill(&place.server);
}

static void give_back(void)
{
	etcd_start(&place.server);
	OK(etcd_serves(&place.server));
}

static void compact(void)
{
	struct rig_result result;
	char body[64];

	EQ(rig_put(stories_store, "compact", "x", NULL, &result), 0);
	EQ(rig_put(stories_store, "compact", NULL, NULL, NULL), 0);
	snprintf(body, sizeof(body), "{\"revision\":\"%llu\"}",
		 (unsigned long long)result.revision);
	EQ(etcd_tell(&place.server, "/v3/kv/compaction", body), 0);
}

static bool becomes_stale(const struct sync_node *node, uint32_t stale)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };

	for (int ms = 0; ms < SYNC_LIMIT_MS; ms += 10) {
		if (gpumap_cluster_read(node->map, &cluster) == 0 &&
		    cluster.stale == stale)
			return true;
		story_nap(10000);
	}
	return false;
}

/* A node that is cut off misses deletions, and their history is compacted
 * away. */
static void a_cut_node_misses_nothing(void)
{
	char lines[96];
	struct etcd_way way;
	struct sync_node cut, brief;

	etcd_way_make(&way, place.server.port);
	etcd_way_open(&way, 0);
	snprintf(lines, sizeof(lines), "etcd = %s\ntimeout = 2s\n", way.url);
	sync_node_make(&cut, "cut", NULL);
	sync_node_make(&brief, "brief", NULL);
	cut.store = lines;
	OK(sync_node_start(&cut, &place));
	OK(sync_node_start(&brief, &place));
	OK(sync_node_sees(&cut, "brief", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >=
	   0);
	etcd_way_close(&way);
	OK(sync_node_wait_log(&cut, "event=store_cut"));
	EQ(sync_node_kill(&brief, SIGTERM), 0);
	OK(sync_node_sees(&stories_a, "brief", GPUMAP_CLUSTER_GONE,
			  SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(&stories_a, "cut", GPUMAP_CLUSTER_GONE,
			  SYNC_LIMIT_MS) >= 0);
	compact();
	/* Old news, and readers can tell. */
	EQ(sync_node_state(&cut, "brief"), GPUMAP_CLUSTER_LIVE);
	OK(becomes_stale(&cut, 1));
	etcd_way_open(&way, 0);
	OK(sync_node_sees(&cut, "brief", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS) >=
	   0);
	OK(sync_node_sees(&stories_a, "cut", GPUMAP_CLUSTER_LIVE,
			  SYNC_LIMIT_MS) >= 0);
	OK(becomes_stale(&cut, 0));
	sync_node_remove(&cut);
	sync_node_remove(&brief);
	etcd_way_close(&way);
}

TAP_CASE()
{
	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return tap_done();
	}
	sync_node_make(&stories_a, "a", NULL);
	sync_node_make(&stories_b, "b", NULL);
	sync_place_etcd(&place);
	stories_begin(&place);
	stories_tell();
	a_cut_node_misses_nothing();
	stories_start_without(take_away, give_back);
	stories_end();
	etcd_remove(&place.server);
	return tap_done();
}

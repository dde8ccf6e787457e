/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A cluster of many nodes, as one node sees it: all come, change and go, and
 * nothing of it stays in memory.  As many as the first argument says, 200
 * without one.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/story.h"
#include "tests/support/nodes/sync_crowd.h"
#include "tests/support/tap.h"

#define TTL_MS     5000
#define ROUNDS     3
#define ROUND_S    3
#define PER_SECOND 20

static struct sync_node node;

static void tell(const char *when)
{
	const pid_t pids[] = { node.pid, agent_main_pid(&node.agent) };

	for (int i = 0; i < 2; i++)
		NOTE("%s: %s %ld KiB, %ld of them its own; %llu ms of a CPU",
		     when, i == 0 ? "gpumap-sync" : "gpumapd",
		     crowd_resident(pids[i]), crowd_resident_own(pids[i]),
		     (unsigned long long)crowd_cpu_ms(pids[i]));
}

/* Wait until so many more changes have been made. */
static bool changed(const struct crowd *crowd, uint32_t n)
{
	uint64_t since_ns = story_now();
	uint32_t until = crowd->shared->n_changes + n;

	while (crowd->shared->n_changes < until) {
		if (story_now() - since_ns > SYNC_LIMIT_MS * UINT64_C(1000000))
			return false;
		story_nap(10000);
	}
	return true;
}

static void play(const struct sync_place *place, uint32_t n)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	long sync_kb = 0, agent_kb = 0;
	struct crowd crowd;
	uint64_t since_ns;
	int ms;

	crowd_start(&crowd, place, n, TTL_MS);
	ms = crowd_stands(&crowd);
	OK(ms >= 0);
	NOTE("%u nodes were in the store after %d ms", n, ms);
	node.ttl_ms = TTL_MS;
	OK(agent_start(&node.agent));
	since_ns = story_now();
	OK(sync_node_start(&node, place));
	OK(crowd_is_seen(&node, n, GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >= 0);
	NOTE("all were published %d ms after gpumap-sync was started",
	     (int)((story_now() - since_ns) / 1000000));
	EQ(gpumap_cluster_read(node.map, &cluster), 0);
	EQ(cluster.n_devices, n * CROWD_ROWS + 1);
	EQ(cluster.n_shares, n);
	EQ(cluster.stale, 0);
	tell("published");
	crowd.shared->per_second = PER_SECOND;
	for (int i = 0; i < ROUNDS; i++) {
		char when[64];

		OK(changed(&crowd, PER_SECOND * ROUND_S));
		snprintf(when, sizeof(when), "%u changes",
			 crowd.shared->n_changes);
		tell(when);
		if (i == 0) {
			sync_kb = crowd_resident_own(node.pid);
			agent_kb =
				crowd_resident_own(agent_main_pid(&node.agent));
		}
	}
	crowd_stays(node.pid, sync_kb, 1024);
	crowd_stays(agent_main_pid(&node.agent), agent_kb, 1024);
	EQ(crowd.shared->n_failed, 0);
	crowd_kill(&crowd);
	ms = crowd_is_seen(&node, n, GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS);
	OK(ms >= 0);
	NOTE("all were gone after %d ms", ms);
	tell("gone");
	OK(!sync_node_logged(&node, "level=warning"));
	EQ(sync_node_kill(&node, SIGTERM), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 200;
	struct sync_place place;
	char directory[96];

	sync_node_make(&node, "self", NULL);
	snprintf(directory, sizeof(directory), "%.80s/store", node.agent.dir);
	sync_place_file(&place, directory);
	play(&place, n);
	sync_node_remove(&node);
	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return tap_done();
	}
	sync_node_make(&node, "self", NULL);
	sync_place_etcd(&place);
	play(&place, n);
	sync_node_remove(&node);
	etcd_remove(&place.server);
	return tap_done();
}

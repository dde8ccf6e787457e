/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Three nodes with networks of their own, of which one is cut off: no packet
 * comes or goes, and no end is told.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/nodes/net.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/support/story.h"
#include "tests/support/nodes/sync_nodes.h"
#include "tests/support/tap.h"

#define NODES   3
#define CUT     2
#define CHANGES 40

static struct net_place places[NODES];
static struct sync_node nodes[NODES];
static struct sync_place etcd;
static struct gm_store *store;
static uint64_t part; /* bytes of a row whose change is told at once */

static void enter_0(void)
{
	net_enter(&places[0]);
}

static void enter_1(void)
{
	net_enter(&places[1]);
}

static void enter_2(void)
{
	net_enter(&places[2]);
}

/* ---- changes ------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void changes_are_seen_on_the_others(void)
{
	int ms[CHANGES * 2], n = 0;

	for (uint64_t i = 1; i <= CHANGES; i++) {
		EQ(sync_node_reserve(&nodes[0], i * part), 0);
		for (int j = 1; j < NODES; j++) {
			ms[n] = sync_node_sees_reserved(
				&nodes[j], "n0", i * part, SYNC_LIMIT_MS);
			OK(ms[n++] >= 0);
		}
		/* The next one is not held back by this one. */
		story_nap(210000);
	}
	EQ(sync_node_reserve(&nodes[0], 0), 0);
	qsort(ms, (size_t)n, sizeof(ms[0]), compare);
	NOTE("a change is seen elsewhere after %d ms (median), at most %d ms",
	     ms[n / 2], ms[n - 1]);
}

/* ---- the cut ------------------------------------------------------------- */

static bool is_stale(const struct sync_node *node)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };

	return gpumap_cluster_read(node->map, &cluster) == 0 &&
	       cluster.stale != 0;
}

/* Wait until the node's cluster is stale, or is not.  Returns the milliseconds,
 * or -1. */
static int becomes_stale(const struct sync_node *node, bool stale)
{
	uint64_t since_ns = story_now();

	while (is_stale(node) != stale) {
		if (story_now() - since_ns > SYNC_LIMIT_MS * UINT64_C(1000000))
			return -1;
		story_nap(2000);
	}
	return (int)((story_now() - since_ns) / 1000000);
}

static void compact(void)
{
	struct rig_result result;
	char body[64];

	EQ(rig_put(store, "compact", "x", NULL, &result), 0);
	EQ(rig_put(store, "compact", NULL, NULL, NULL), 0);
	snprintf(body, sizeof(body), "{\"revision\":\"%llu\"}",
		 (unsigned long long)result.revision);
	EQ(etcd_tell(&etcd.server, "/v3/kv/compaction", body), 0);
}

/* Its sessions do not notice. */
static void its_own_clients_go_on(const struct sync_node *node)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 1 << 20 };
	const struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_session *session = NULL;

	EQ(gpumap_session_open(node->map, &opts, &session), 0);
	for (int i = 0; i < 100; i++)
		EQ(story_run(session, 0, &nop), 0);
	gpumap_session_close(session);
}

/* The others say so, and it says so of them.  Times are for reading: they
 * depend on etcd, and on what else this machine does. */
static void a_cut_node_is_known_to_be_gone(void)
{
	int ms, stale_ms;

	net_cut(&places[CUT]);
	ms = sync_node_sees(&nodes[0], "n2", GPUMAP_CLUSTER_GONE,
			    SYNC_LIMIT_MS);
	OK(ms >= 0);
	OK(sync_node_sees(&nodes[1], "n2", GPUMAP_CLUSTER_GONE,
			  SYNC_LIMIT_MS) >= 0);
	stale_ms = becomes_stale(&nodes[CUT], true);
	OK(stale_ms >= 0);
	NOTE("gone after %d ms, with a lease of %u ms; %d ms later it knew", ms,
	     nodes[CUT].ttl_ms, stale_ms);
	OK(!is_stale(&nodes[0]));
	its_own_clients_go_on(&nodes[CUT]);

	/* Changes meanwhile come later, also without their history. */
	EQ(sync_node_reserve(&nodes[0], 7 * part), 0);
	EQ(sync_node_reserve(&nodes[CUT], 8 * part), 0);
	OK(sync_node_sees_reserved(&nodes[1], "n0", 7 * part, SYNC_LIMIT_MS) >=
	   0);
	compact();
	EQ(sync_node_kill(&nodes[1], SIGTERM), 0);

	net_heal(&places[CUT]);
	ms = sync_node_sees(&nodes[0], "n2", GPUMAP_CLUSTER_LIVE,
			    SYNC_LIMIT_MS);
	OK(ms >= 0);
	stale_ms = becomes_stale(&nodes[CUT], false);
	OK(stale_ms >= 0);
	NOTE("back after %d ms; %d ms later it knew all", ms, stale_ms);
	OK(sync_node_sees_reserved(&nodes[CUT], "n0", 7 * part,
				   SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees_reserved(&nodes[0], "n2", 8 * part, SYNC_LIMIT_MS) >=
	   0);
	EQ(sync_node_state(&nodes[CUT], "n1"), GPUMAP_CLUSTER_GONE);
	sync_node_spawn(&nodes[1], &etcd);
	OK(sync_node_sees(&nodes[CUT], "n1", GPUMAP_CLUSTER_LIVE,
			  SYNC_LIMIT_MS) >= 0);
	EQ(sync_node_reserve(&nodes[0], 0), 0);
	EQ(sync_node_reserve(&nodes[CUT], 0), 0);
}

/* A cut that is shorter than the lease is no event for any node. */
static void a_short_cut_is_no_event(void)
{
	unsigned int n = sync_node_count_log(&nodes[0], "event=node_gone");

	net_cut(&places[CUT]);
	story_nap(300000);
	net_heal(&places[CUT]);
	EQ(sync_node_reserve(&nodes[0], 9 * part), 0);
	OK(sync_node_sees_reserved(&nodes[CUT], "n0", 9 * part,
				   SYNC_LIMIT_MS) >= 0);
	EQ(sync_node_reserve(&nodes[0], 0), 0);
	EQ((intmax_t)sync_node_count_log(&nodes[0], "event=node_gone"), n);
}

TAP_CASE()
{
	static void (*const enter[NODES])(void) = { enter_0, enter_1, enter_2 };
	const char *lack = etcd_lack();

	if (lack == NULL)
		lack = net_make(places, NODES);
	if (lack != NULL) {
		LACK("network namespaces and etcd", 1, lack);
		return tap_done();
	}
	for (int i = 0; i < NODES; i++) {
		char name[8];

		snprintf(name, sizeof(name), "n%d", i);
		sync_node_make(&nodes[i], name, NULL);
		nodes[i].prepare = enter[i];
	}
	sync_place_etcd_at(&etcd, NET_HOME);
	store = sync_place_open(&etcd);
	for (int i = 0; i < NODES; i++)
		OK(sync_node_start(&nodes[i], &etcd));
	for (int i = 0; i < NODES * NODES; i++) {
		char name[8];

		snprintf(name, sizeof(name), "n%d", i % NODES);
		OK(sync_node_sees(&nodes[i / NODES], name, GPUMAP_CLUSTER_LIVE,
				  SYNC_LIMIT_MS) >= 0);
	}
	part = sync_node_step(&nodes[0]);
	changes_are_seen_on_the_others();
	for (int i = 0; i < story_rounds_or(2); i++)
		a_cut_node_is_known_to_be_gone();
	a_short_cut_is_no_event();
	for (int i = 0; i < NODES; i++)
		sync_node_remove(&nodes[i]);
	gm_store_close(store);
	etcd_remove(&etcd.server);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A node's own key and its list of the nodes, step by step: a watch and
 * requests of the test's own, and times that do not pass.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/sync/config.h"
#include "agent/sync/parts.h"
#include "agent/sync/peers.h"
#include "tests/unit/sync/asked_store.h"

#define SECOND_NS UINT64_C(1000000000)
#define FORGET_NS (1000 * SECOND_NS)
#define OURS      "0123456789abcdef"
#define THEIRS    "fedcba9876543210"
#define BOOT      "00000000-1111-4222-8333-444444444444"
#define ELSEWHERE "99999999-1111-4222-8333-444444444444"

static struct gm_store_lease lease;
static struct gm_sync this_node;
static uint64_t now_ns;

/* ---- the store ----------------------------------------------------------- */

static void tell(uint32_t kind, const char *key, const char *value, int bytes,
		 uint64_t revision)
{
	const struct gm_store_event event = { .kind = kind,
					      .key = key,
					      .value = value,
					      .bytes = (size_t)bytes,
					      .revision = revision };

	watch->event(watch, &event);
}

static void tell_gone(const char *key)
{
	tell(GM_STORE_DELETE, key, NULL, 0, 0);
}

/* The watch has the key of a node. */
static void tell_node(const char *name, const char *instance, const char *boot,
		      uint64_t revision)
{
	struct gm_summary summary = { .node = { .size = sizeof(summary.node),
						.address = "b.test" } };
	char value[GM_STORE_VALUE_BYTES], key[80];

	snprintf(summary.node.name, sizeof(summary.node.name), "%s", name);
	snprintf(summary.instance, sizeof(summary.instance), "%s", instance);
	snprintf(summary.boot, sizeof(summary.boot), "%s", boot);
	snprintf(key, sizeof(key), GM_PEERS_PREFIX "%s", name);
	tell(GM_STORE_PUT, key, value, gm_summary_encode(&summary, value),
	     revision);
}

/* ---- the node ------------------------------------------------------------ */

static void begin(void)
{
	static char cluster[] = "c", node[] = "a", address[] = "a.test";
	static struct gm_sync_config config = { .cluster = cluster,
						.node = node,
						.address = address,
						.gangs = true,
						.ttl_ns = 5 * SECOND_NS,
						.forget_ns = FORGET_NS };

	store_begin();
	now_ns = gm_sync_now();
	lease = (struct gm_store_lease){ .held = true };
	this_node = (struct gm_sync){ .config = &config,
				      .store = &store,
				      .lease = &lease,
				      .instance = OURS,
				      .boot = BOOT };
	EQ(gm_peers_part.open(&this_node), 0);
	EQ(gm_own_part.open(&this_node), 0);
	tell(GM_STORE_RESYNC, NULL, NULL, 0, 0);
}

static void end(void)
{
	store_end();
	gm_own_part.close(&this_node);
	gm_peers_part.close(&this_node);
}

/* Let it be when the node has something to say.  Returns how long that is. */
static uint64_t say(void)
{
	uint64_t due_ns = gm_own_part.due(&this_node), from_ns = now_ns;

	if (due_ns == GM_SYNC_NEVER)
		return GM_SYNC_NEVER;
	if (due_ns > now_ns)
		now_ns = due_ns;
	gm_own_part.tick(&this_node, now_ns);
	return now_ns - from_ns;
}

static void set_lease(bool is_held)
{
	lease.held = is_held;
	gm_own_part.lease(&this_node);
}

/* The node has said something, and the watch says so. */
static void say_first(void)
{
	begin();
	EQ(say(), 0);
	EQ(asked()->expected, 0);
	STR(asked()->key, "nodes/a");
	OK(asked()->lease == &lease);
	answer(0, 7);
	tell_node("a", OURS, BOOT, 7);
	say();
	OK(asked() == NULL);
}

/* ---- what it says -------------------------------------------------------- */

static void a_failure_is_not_repeated_at_once(void)
{
	begin();
	EQ(say(), 0);
	answer(-EACCES, 0);
	OK(say() >= SECOND_NS / 2);
	OK(asked() != NULL);
	end();
}

/* The keys of a lease that was lost are gone, and the watch may say so late. */
static void another_lease_has_the_key_at_once(void)
{
	say_first();
	set_lease(false);
	EQ(say(), GM_SYNC_NEVER);
	set_lease(true);
	OK(say() <= SECOND_NS / 4);
	if (OK(asked() != NULL))
		EQ(asked()->expected, 7);
	/* A key that has gone is no failure. */
	answer(-ESTALE, 0);
	OK(say() <= SECOND_NS / 4);
	if (OK(asked() != NULL))
		EQ(asked()->expected, 0);
	end();
}

static void another_machine_keeps_the_name(void)
{
	begin();
	tell_node("a", THEIRS, ELSEWHERE, 3);
	say();
	OK(asked() == NULL);
	EQ(say(), GM_SYNC_NEVER);
	tell_gone("nodes/a");
	say();
	if (OK(asked() != NULL))
		EQ(asked()->expected, 0);
	end();
	/* The predecessor on this one does not. */
	begin();
	tell_node("a", THEIRS, BOOT, 3);
	say();
	if (OK(asked() != NULL))
		EQ(asked()->expected, 3);
	end();
}

/* ---- what it has heard --------------------------------------------------- */

static struct gm_peer *peer(const char *name)
{
	return (struct gm_peer *)gm_peers_find(this_node.peers, name);
}

static void the_same_again_is_no_news(void)
{
	begin();
	tell_node("b", THEIRS, ELSEWHERE, 5);
	OK(peer("b")->is_news);
	peer("b")->is_news = false;
	tell_node("b", THEIRS, ELSEWHERE, 5); /* in a list */
	OK(!peer("b")->is_news);
	tell_node("b", THEIRS, ELSEWHERE, 6);
	OK(peer("b")->is_news);
	peer("b")->is_news = false;
	tell_gone("nodes/b");
	OK(peer("b")->is_news);
	EQ(peer("b")->summary.node.state, GPUMAP_CLUSTER_GONE);
	end();
}

static void each_node_is_forgotten_in_its_time(void)
{
	uint64_t since_ns;

	begin();
	EQ(gm_peers_part.due(&this_node), GM_SYNC_NEVER);
	tell_node("b", THEIRS, ELSEWHERE, 5);
	tell_node("c", THEIRS, ELSEWHERE, 6);
	EQ(gm_peers_part.due(&this_node), GM_SYNC_NEVER);
	tell_gone("nodes/b");
	tell_gone("nodes/c");
	since_ns = peer("b")->since_ns;
	peer("c")->since_ns = since_ns + SECOND_NS;
	EQ(gm_peers_part.due(&this_node), since_ns + FORGET_NS);
	gm_peers_part.tick(&this_node, since_ns + FORGET_NS - 1);
	OK(peer("b") != NULL);
	gm_peers_part.tick(&this_node, since_ns + FORGET_NS);
	OK(peer("b") == NULL);
	OK(peer("c") != NULL);
	EQ(gm_peers_count(this_node.peers), 2); /* the agent does not know */
	EQ(gm_peers_part.due(&this_node), since_ns + FORGET_NS + SECOND_NS);
	gm_peers_told(this_node.peers);
	EQ(gm_peers_count(this_node.peers), 1);
	end();
}

static void nodes_that_are_too_many_are_left_out(void)
{
	char name[16];

	begin();
	for (unsigned int i = 0; i <= GPUMAP_CLUSTER_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		tell_node(name, THEIRS, ELSEWHERE, i + 1);
	}
	EQ(gm_peers_count(this_node.peers), GPUMAP_CLUSTER_NODES_MAX);
	OK(peer("n0") != NULL);
	OK(peer(name) == NULL);
	/* One that is forgotten makes room. */
	tell_gone("nodes/n0");
	gm_peers_part.tick(&this_node, gm_sync_now() + FORGET_NS);
	gm_peers_told(this_node.peers);
	tell_node(name, THEIRS, ELSEWHERE, 9999);
	OK(peer(name) != NULL);
	end();
}

TAP_CASE()
{
	a_failure_is_not_repeated_at_once();
	another_lease_has_the_key_at_once();
	another_machine_keeps_the_name();
	the_same_again_is_no_news();
	each_node_is_forgotten_in_its_time();
	nodes_that_are_too_many_are_left_out();
	return tap_done();
}

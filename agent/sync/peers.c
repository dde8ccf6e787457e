/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/sync/config.h"
#include "agent/sync/node_name.h"
#include "agent/sync/parts.h"

struct gm_peers {
	struct gm_store_watch watch;
	struct gm_sync *sync;
	struct gm_peer *list[GPUMAP_CLUSTER_NODES_MAX];
	uint32_t n;
	bool is_known;
	bool is_whole;
	bool said_full;
};

/* ---- the list ------------------------------------------------------------ */

static int order(const char *name, const struct gm_peer *peer)
{
	return strcmp(name, peer->summary.node.name);
}

/* Where @name is, or is to be. */
static uint32_t place_of(const struct gm_peers *peers, const char *name)
{
	uint32_t from = 0, to = peers->n;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (order(name, peers->list[middle]) > 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static struct gm_peer *find(const struct gm_peers *peers, const char *name)
{
	uint32_t place = place_of(peers, name);

	return place < peers->n && order(name, peers->list[place]) == 0
		       ? peers->list[place]
		       : NULL;
}

const struct gm_peer *gm_peers_find(const struct gm_peers *peers,
				    const char *name)
{
	const struct gm_peer *peer = find(peers, name);

	return peer != NULL && !peer->is_forgotten ? peer : NULL;
}

struct gm_peer *gm_peers_at(const struct gm_peers *peers, uint32_t place)
{
	return place < peers->n ? peers->list[place] : NULL;
}

uint32_t gm_peers_after(const struct gm_peers *peers, const char *name)
{
	uint32_t place = place_of(peers, name);

	return place < peers->n && order(name, peers->list[place]) == 0
		       ? place + 1
		       : place;
}

uint32_t gm_peers_count(const struct gm_peers *peers)
{
	return peers->n;
}

bool gm_peers_known(const struct gm_peers *peers)
{
	return peers->is_known;
}

bool gm_peers_whole(const struct gm_peers *peers)
{
	return peers->is_whole;
}

static void free_peer(struct gm_peer *peer)
{
	gm_summary_free(&peer->summary);
	free(peer);
}

/* Once, until there is room again. */
static struct gm_peer *no_room(struct gm_peers *peers, const char *name,
			       const char *why)
{
	if (!peers->said_full)
		gm_log(GM_LOG_WARNING, "node_left_out", "node=%s why=%s", name,
		       gm_quote(why).text);
	peers->said_full = true;
	return NULL;
}

struct gm_peer *gm_peers_add(struct gm_peers *peers, const char *name)
{
	uint32_t place = place_of(peers, name);
	struct gm_peer *peer;

	if (peers->n == GPUMAP_CLUSTER_NODES_MAX)
		return no_room(peers, name,
			       "the cluster has 1024 nodes already, with those "
			       "that are gone: forget them sooner, or make two "
			       "clusters");
	peer = calloc(1, sizeof(*peer));
	if (peer == NULL)
		return no_room(peers, name, "out of memory");
	memcpy(peer->summary.node.name, name, strlen(name) + 1);
	memmove(&peers->list[place + 1], &peers->list[place],
		(peers->n - place) * sizeof(*peers->list));
	peers->list[place] = peer;
	peers->n++;
	return peer;
}

void gm_peers_told(struct gm_peers *peers)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < peers->n; i++) {
		struct gm_peer *peer = peers->list[i];

		if (peer->is_forgotten)
			free_peer(peer);
		else
			peers->list[n++] = peer;
	}
	if (n < peers->n)
		peers->said_full = false;
	peers->n = n;
}

/* ---- what they say ------------------------------------------------------- */

static void touch(struct gm_peer *peer, uint64_t revision)
{
	peer->revision = revision;
	peer->since_ns = gm_sync_now();
	peer->is_news = true;
	peer->is_forgotten = false;
}

static void refuse(struct gm_peer *peer, uint64_t revision, const char *why)
{
	struct gpumap_cluster_node *node = &peer->summary.node;
	struct gpumap_cluster_node empty = { .size = sizeof(empty),
					     .state = GPUMAP_CLUSTER_REFUSED };

	if (node->state != GPUMAP_CLUSTER_REFUSED)
		gm_log(GM_LOG_WARNING, "node_refused", "node=%s why=%s",
		       node->name, gm_quote(why).text);
	memcpy(empty.name, node->name, sizeof(empty.name));
	gm_summary_free(&peer->summary);
	peer->summary = (struct gm_summary){ .node = empty };
	touch(peer, revision);
}

static void put(struct gm_peers *peers, const char *name,
		const struct gm_store_event *event)
{
	struct gm_peer *peer = find(peers, name);
	struct gm_summary summary = { 0 };
	char why[GM_WHY_BYTES] = "out of memory";
	uint32_t before;

	if (peer != NULL && peer->revision == event->revision)
		return;
	if (peer == NULL)
		peer = gm_peers_add(peers, name);
	if (peer == NULL)
		return;
	if (event->value == NULL) {
		refuse(peer, event->revision, event->why);
		return;
	}
	if (gm_summary_decode(event->value, event->bytes, name, &summary,
			      why) != 0) {
		refuse(peer, event->revision, why);
		return;
	}
	before = peer->summary.node.state;
	gm_summary_free(&peer->summary);
	peer->summary = summary;
	touch(peer, event->revision);
	/* Those that were there before are counted when the list is whole. */
	if (before != GPUMAP_CLUSTER_LIVE && peers->is_known)
		gm_log(GM_LOG_INFO, "node_live", "node=%s", name);
}

static void go(struct gm_peers *peers, const char *name)
{
	struct gm_peer *peer = find(peers, name);

	if (peer == NULL || peer->revision == 0)
		return;
	gm_log(GM_LOG_INFO, "node_gone", "node=%s", name);
	peer->summary.node.state = GPUMAP_CLUSTER_GONE;
	touch(peer, 0);
}

static void cut(struct gm_peers *peers, const char *why)
{
	gm_log(GM_LOG_WARNING, "store_cut", "why=%s", gm_quote(why).text);
	peers->is_whole = false;
}

static void resynced(struct gm_peers *peers)
{
	if (!peers->is_whole)
		gm_log(GM_LOG_INFO, "store_whole", "nodes=%u", peers->n);
	peers->is_known = peers->is_whole = true;
}

static void event_of(struct gm_store_watch *watch,
		     const struct gm_store_event *event)
{
	struct gm_peers *peers = (struct gm_peers *)watch;
	const char *name;

	if (event->kind == GM_STORE_CUT)
		cut(peers, event->why);
	else if (event->kind == GM_STORE_RESYNC)
		resynced(peers);
	if (event->kind != GM_STORE_PUT && event->kind != GM_STORE_DELETE)
		return;
	name = event->key + strlen(GM_PEERS_PREFIX);
	if (!gm_node_name_check(name))
		no_room(peers, "-",
			"a key below nodes/ is no node's name: "
			"remove it from the store");
	else if (event->kind == GM_STORE_PUT)
		put(peers, name, event);
	else
		go(peers, name);
}

/* ---- forgetting ---------------------------------------------------------- */

static uint64_t due(const struct gm_sync *sync)
{
	const struct gm_peers *peers = sync->peers;
	uint64_t due_ns = GM_SYNC_NEVER;

	for (uint32_t i = 0; i < peers->n; i++) {
		const struct gm_peer *peer = peers->list[i];
		uint64_t end_ns = peer->since_ns + sync->config->forget_ns;

		if (peer->revision == 0 && !peer->is_forgotten &&
		    end_ns < due_ns)
			due_ns = end_ns;
	}
	return due_ns;
}

static void tick(struct gm_sync *sync, uint64_t now_ns)
{
	struct gm_peers *peers = sync->peers;

	for (uint32_t i = 0; i < peers->n; i++) {
		struct gm_peer *peer = peers->list[i];

		if (peer->revision != 0 || peer->is_forgotten ||
		    now_ns < peer->since_ns + sync->config->forget_ns)
			continue;
		gm_log(GM_LOG_INFO, "node_forgotten", "node=%s",
		       peer->summary.node.name);
		peer->is_forgotten = peer->is_news = true;
	}
}

/* ---- begin and end ------------------------------------------------------- */

static void close_peers(struct gm_sync *sync)
{
	for (uint32_t i = 0; i < sync->peers->n; i++)
		free_peer(sync->peers->list[i]);
	free(sync->peers);
	sync->peers = NULL;
}

static int open_peers(struct gm_sync *sync)
{
	struct gm_peers *peers = calloc(1, sizeof(*peers));
	int ret;

	if (peers == NULL)
		return -ENOMEM;
	sync->peers = peers;
	peers->sync = sync;
	peers->watch.prefix = GM_PEERS_PREFIX;
	peers->watch.event = event_of;
	ret = gm_store_watch(sync->store, &peers->watch);
	if (ret != 0)
		close_peers(sync);
	return ret;
}

const struct gm_sync_part gm_peers_part = {
	.open = open_peers,
	.close = close_peers,
	.due = due,
	.tick = tick,
};

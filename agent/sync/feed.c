/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The feed: has the agent publish what the nodes have said.
 *
 * All nodes are sent first, in portions, and whatever has changed from then on,
 * at most five times a second.  After any failure all are sent again: the agent
 * may have started anew.  Once a second the agent hears that nothing was
 * missed, while the store's watch is whole and the lease is held.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/sync/config.h"
#include "agent/sync/parts.h"
#include "agent/sync/peers.h"

#define PUBLISH_NS    UINT64_C(200000000)
#define HEARD_NS      UINT64_C(1000000000)
#define RETRY_NS      UINT64_C(1000000000)
#define RETRY_MOST_NS UINT64_C(30000000000)
#define LIMIT_NS      UINT64_C(1000000000) /* beside the lease's time */
#define PORTION_BYTES (96u << 10)
#define PORTION       256u /* nodes */

struct gm_feed {
	bool begins;       /* the agent is to forget what came before */
	bool has_recalled; /* what an earlier gpumap-sync knew */
	bool is_midway;    /* portions have been sent, and readers see none */
	char at[64];       /* the last node that was sent */
	uint64_t due_ns;
	uint64_t heard_ns;
	uint64_t retry_ns; /* after the next failure */
	uint32_t bytes;    /* of a portion */
	int said;          /* the last error that was logged */
	struct gpumap_cluster_entry entries[PORTION];
	struct gpumap_cluster_node nodes[PORTION];
};

/* ---- a portion ----------------------------------------------------------- */

static uint32_t bytes_of(const struct gm_peer *peer)
{
	const struct gpumap_cluster_node *node = &peer->summary.node;

	return (uint32_t)(sizeof(struct gpumap_cluster_entry) + sizeof(*node) +
			  node->n_devices *
				  sizeof(struct gpumap_cluster_device) +
			  node->n_shares * sizeof(struct gpumap_cluster_share));
}

static void add_entry(struct gm_feed *feed, const struct gm_sync *sync,
		      const struct gm_peer *peer, uint32_t n)
{
	struct gpumap_cluster_node *node = &feed->nodes[n];

	*node = peer->summary.node;
	node->age_ns = gm_sync_now() - peer->since_ns;
	if (strcmp(peer->summary.instance, sync->instance) == 0)
		node->flags |= GPUMAP_CLUSTER_SELF;
	feed->entries[n] = (struct gpumap_cluster_entry){
		.node = node,
		.devices = peer->summary.devices,
		.shares = peer->summary.shares,
		.n_devices = node->n_devices,
		.n_shares = node->n_shares,
		.remove = peer->is_forgotten,
	};
}

static bool is_wanted(const struct gm_feed *feed, const struct gm_peer *peer)
{
	return feed->begins ? !peer->is_forgotten : peer->is_news;
}

/* The next nodes to send.  Returns how many, and in *@ret_place where the ones
 * after them begin. */
static uint32_t gather(struct gm_feed *feed, const struct gm_sync *sync,
		       uint32_t *ret_place)
{
	const struct gm_peers *peers = sync->peers;
	uint32_t place = feed->is_midway ? gm_peers_after(peers, feed->at) : 0;
	uint32_t n = 0, bytes = 0;
	const struct gm_peer *peer;

	for (; (peer = gm_peers_at(peers, place)) != NULL; place++) {
		if (!is_wanted(feed, peer))
			continue;
		bytes += bytes_of(peer);
		if (n == PORTION || (n > 0 && bytes > feed->bytes))
			break;
		add_entry(feed, sync, peer, n++);
	}
	*ret_place = place;
	return n;
}

/* ---- failures ------------------------------------------------------------ */

static void fail(struct gm_feed *feed, const struct gm_sync *sync, int error,
		 uint64_t now_ns)
{
	if (error == -EMSGSIZE && feed->bytes > 1) {
		feed->bytes /= 2;
		return;
	}
	/* An agent that has begun anew says nothing else. */
	if (error != -ESTALE && error != feed->said)
		gm_log(GM_LOG_WARNING, "not_published", "why=%s",
		       gm_quote(gpumap_refusal(sync->map)).text);
	if (error != -ESTALE)
		feed->said = error;
	feed->begins = true;
	feed->is_midway = false;
	feed->due_ns = now_ns + feed->retry_ns;
	if (feed->retry_ns < RETRY_MOST_NS)
		feed->retry_ns *= 2;
}

/* ---- publications -------------------------------------------------------- */

static bool hears(const struct gm_sync *sync)
{
	return sync->lease->held && gm_peers_whole(sync->peers);
}

/* The agent knows the nodes that were sent. */
static void note_sent(struct gm_feed *feed, struct gm_peers *peers, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t place = gm_peers_after(peers, feed->nodes[i].name) - 1;

		gm_peers_at(peers, place)->is_news = false;
	}
	if (n > 0)
		memcpy(feed->at, feed->nodes[n - 1].name, sizeof(feed->at));
}

static void finish(struct gm_feed *feed, struct gm_peers *peers,
		   uint64_t now_ns)
{
	if (feed->begins || feed->said != 0)
		gm_log(GM_LOG_INFO, "published", "nodes=%u",
		       gm_peers_count(peers));
	feed->begins = feed->is_midway = false;
	feed->said = 0;
	feed->retry_ns = RETRY_NS;
	feed->due_ns = now_ns + PUBLISH_NS;
	gm_peers_told(peers);
}

static void tick(struct gm_sync *sync, uint64_t now_ns)
{
	struct gm_feed *feed = sync->feed;
	struct gpumap_cluster_request request = {
		.size = sizeof(request),
		.name = sync->config->cluster,
		.node = sync->config->node,
		.limit_ns = sync->config->ttl_ns + LIMIT_NS,
		.entries = feed->entries,
	};
	bool is_last;
	uint32_t place;
	int ret;

	if (!feed->has_recalled)
		gm_peers_recall(sync->peers, sync->map);
	feed->has_recalled = true;
	request.n_entries = gather(feed, sync, &place);
	is_last = gm_peers_at(sync->peers, place) == NULL;
	if (feed->begins && !feed->is_midway)
		request.flags |= GPUMAP_CLUSTER_BEGIN;
	if (!is_last)
		request.flags |= GPUMAP_CLUSTER_MORE;
	else if (hears(sync))
		request.flags |= GPUMAP_CLUSTER_HEARD;
	ret = gpumap_cluster_publish(sync->map, &request);
	if (ret != 0) {
		fail(feed, sync, ret, now_ns);
		return;
	}
	note_sent(feed, sync->peers, request.n_entries);
	if ((request.flags & GPUMAP_CLUSTER_HEARD) != 0)
		feed->heard_ns = now_ns + HEARD_NS;
	feed->is_midway = true;
	if (is_last)
		finish(feed, sync->peers, now_ns);
}

static bool has_news(const struct gm_peers *peers)
{
	const struct gm_peer *peer;

	for (uint32_t i = 0; (peer = gm_peers_at(peers, i)) != NULL; i++)
		if (peer->is_news)
			return true;
	return false;
}

/* Nothing is published before the list has been whole: until then readers have
 * what an earlier gpumap-sync knew. */
static uint64_t due(const struct gm_sync *sync)
{
	const struct gm_feed *feed = sync->feed;

	if (!gm_sync_agent_answers(sync) || !gm_peers_known(sync->peers))
		return GM_SYNC_NEVER;
	if (feed->begins || feed->is_midway || has_news(sync->peers))
		return feed->due_ns;
	if (!hears(sync))
		return GM_SYNC_NEVER;
	return feed->heard_ns > feed->due_ns ? feed->heard_ns : feed->due_ns;
}

/* ---- begin and end ------------------------------------------------------- */

static void agent(struct gm_sync *sync)
{
	struct gm_feed *feed = sync->feed;

	feed->begins = true;
	feed->is_midway = false;
	feed->due_ns = 0;
	feed->retry_ns = RETRY_NS;
	feed->bytes = PORTION_BYTES;
}

static int open_feed(struct gm_sync *sync)
{
	sync->feed = calloc(1, sizeof(*sync->feed));
	if (sync->feed == NULL)
		return -ENOMEM;
	agent(sync);
	return 0;
}

static void close_feed(struct gm_sync *sync)
{
	free(sync->feed);
	sync->feed = NULL;
}

const struct gm_sync_part gm_feed_part = {
	.open = open_feed,
	.close = close_feed,
	.agent = agent,
	.due = due,
	.tick = tick,
};

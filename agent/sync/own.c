/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * own - what this node says of itself: its key, under its lease.
 *
 * Objects, states, shares and the agent are said at once, but for the 200 ms
 * after what was said last; bytes that have merely moved wait for a second, and
 * longer in a cluster of more than 50 nodes.
 *
 * A key is written only as it was seen.  Where another machine has this node's
 * name, the one that comes later says nothing until the other's key is gone.
 * The predecessor on this machine is replaced at once.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/sync/config.h"
#include "agent/sync/parts.h"
#include "agent/sync/peers.h"
#include "agent/sync/summary_read.h"

#define PUT_NS    UINT64_C(200000000)  /* from one put to the next */
#define LOOK_NS   UINT64_C(1000000000) /* at figures, and at shares */
#define PACE_NS   UINT64_C(20000000)   /* from one look to the next */
#define RETRY_NS  UINT64_C(1000000000) /* after a failure */
#define A_NODE_NS UINT64_C(20000000)   /* of a cluster, for figures */

struct gm_own {
	struct gm_summary said; /* as it was put last */
	char key[sizeof(GM_PEERS_PREFIX) + GPUMAP_NAME_MAX];
	char value[GM_STORE_VALUE_BYTES];
	struct gm_store_write write;
	struct gm_sync *sync;
	bool is_writing;
	bool is_said;       /* @said is in the store */
	bool waits_for_key; /* for the watch to say what it has */
	bool conflicts;     /* another machine has the key */
	uint64_t expected;  /* revision to replace; 0: there is no key */
	uint64_t ours;      /* revision of the last put; 0: none yet */
	uint64_t seen;      /* revision that the watch said */
	uint64_t put_ns;    /* when not to put before */
	uint64_t said_ns;   /* of the last put */
	uint64_t look_ns;
	uint64_t pace_ns; /* when not to look before */
	uint64_t shares_ns;
	uint32_t generation; /* of the map, as it was looked at */
	/* why the last put failed, as it was logged; "": it did not */
	char why[GM_STORE_WHY_BYTES];
};

/* ---- the key ------------------------------------------------------------- */

static void conflict(struct gm_own *own, const struct gm_peer *peer)
{
	if (!own->conflicts)
		gm_log(GM_LOG_ERROR, "name_taken", "node=%s by=%s remedy=%s",
		       own->sync->config->node,
		       gm_quote(peer->summary.node.address).text,
		       gm_quote("another machine of the cluster has this name: "
				"give each its own node = NAME in [cluster] of "
				"gpumap-sync.conf")
			       .text);
	own->conflicts = true;
	own->is_said = false;
}

static bool is_ours(const struct gm_own *own, const struct gm_peer *peer)
{
	return strcmp(peer->summary.instance, own->sync->instance) == 0;
}

/* A process of this machine that cannot run any more: it had the socket, or
 * another one while we have not said anything. */
static bool is_predecessor(const struct gm_own *own, const struct gm_peer *peer)
{
	return own->ours == 0 &&
	       strcmp(peer->summary.boot, own->sync->boot) == 0;
}

static void key_gone(struct gm_own *own)
{
	if (own->conflicts)
		gm_log(GM_LOG_INFO, "name_free", "node=%s",
		       own->sync->config->node);
	own->conflicts = own->is_said = false;
	own->expected = 0;
}

/* The revision of the key, as the watch says; 0: there is none. */
static uint64_t key_of(const struct gm_own *own)
{
	const struct gm_peer *peer =
		gm_peers_find(own->sync->peers, own->sync->config->node);

	return peer != NULL ? peer->revision : 0;
}

/* Take what the watch says of the key.  A refused value has no owner. */
static void follow_key(struct gm_own *own)
{
	const struct gm_peer *peer =
		gm_peers_find(own->sync->peers, own->sync->config->node);
	uint64_t revision = key_of(own);

	if (revision == own->seen && !own->waits_for_key)
		return;
	own->seen = revision;
	if (revision == own->ours && revision != 0) {
		own->expected = revision;
	} else if (revision == 0) {
		key_gone(own);
	} else if (peer->summary.node.state == GPUMAP_CLUSTER_REFUSED ||
		   is_predecessor(own, peer)) {
		own->is_said = own->conflicts = false;
		own->expected = revision;
	} else if (!is_ours(own, peer)) {
		conflict(own, peer);
	} else if (own->waits_for_key) {
		/* One of ours that was not acknowledged. */
		own->expected = own->ours = revision;
	}
	own->waits_for_key = false;
}

/* The next attempts fail alike: a reason is logged once. */
static void not_said(struct gm_own *own, const char *why)
{
	if (strcmp(own->why, why) == 0)
		return;
	snprintf(own->why, sizeof(own->why), "%s", why);
	gm_log(GM_LOG_WARNING, "not_said", "why=%s", gm_quote(why).text);
}

static void written(struct gm_store_write *write,
		    const struct gm_store_result *result)
{
	struct gm_own *own = (struct gm_own *)((char *)write -
					       offsetof(struct gm_own, write));
	bool is_late = result->status == -ESTALE &&
		       (result->revision == 0 || result->revision == own->ours);

	own->is_writing = false;
	own->is_said = result->status == 0;
	if (result->status == 0) {
		own->expected = own->ours = result->revision;
		own->why[0] = '\0';
	} else if (is_late) {
		own->expected = result->revision;
	} else if (result->status == -ESTALE || result->status == -ETIMEDOUT) {
		own->waits_for_key = own->seen == result->revision;
	} else if (result->status != -ECANCELED &&
		   result->status != -EOWNERDEAD) {
		not_said(own, result->why);
	}
	if (result->status != 0 && !is_late)
		own->put_ns = gm_sync_now() + RETRY_NS;
}

/* Takes the lists of @now. */
static void put(struct gm_own *own, struct gm_summary *now, uint64_t now_ns)
{
	int bytes = gm_summary_encode(now, own->value), ret = bytes;

	own->put_ns = now_ns + PUT_NS;
	gm_summary_free(&own->said);
	own->said = *now;
	own->write = (struct gm_store_write){
		.key = own->key,
		.value = own->value,
		.bytes = bytes > 0 ? (size_t)bytes : 0,
		.lease = own->sync->lease,
		.expected = own->expected,
		.done = written,
	};
	if (bytes > 0)
		ret = gm_store_cas(own->sync->store, &own->write);
	own->is_writing = ret == 0;
	own->is_said &= own->is_writing;
	own->said_ns = now_ns;
	if (ret != 0)
		not_said(own, strerror(-ret));
}

/* ---- looking ------------------------------------------------------------- */

static int copy_shares(struct gm_summary *to, const struct gm_summary *from)
{
	size_t bytes = from->node.n_shares * sizeof(*from->shares);

	if (bytes == 0)
		return 0;
	to->shares = malloc(bytes);
	if (to->shares == NULL)
		return -ENOMEM;
	memcpy(to->shares, from->shares, bytes);
	to->node.n_shares = from->node.n_shares;
	to->node.more_shares = from->node.more_shares;
	return 0;
}

/* The summary of this node without an agent. */
static void begin(const struct gm_own *own, struct gm_summary *summary)
{
	const struct gm_sync_config *config = own->sync->config;
	struct gpumap_cluster_node *node = &summary->node;

	*summary = (struct gm_summary){
		.node = { .size = sizeof(*node),
			  .state = GPUMAP_CLUSTER_LIVE,
			  .flags = config->gangs ? 0 : GPUMAP_CLUSTER_NO_GANGS }
	};
	snprintf(node->name, sizeof(node->name), "%s", config->node);
	snprintf(node->address, sizeof(node->address), "%s", config->address);
	memcpy(summary->instance, own->sync->instance,
	       sizeof(summary->instance));
	memcpy(summary->boot, own->sync->boot, sizeof(summary->boot));
}

/* Read the map.  Returns 0, or a negative errno; free the summary in any
 * case. */
static int look(struct gm_own *own, struct gm_summary *ret_now, uint64_t now_ns)
{
	struct gpumap *map = own->sync->map;
	bool answers = gm_sync_agent_answers(own->sync);
	int ret = 0;

	own->look_ns = now_ns + LOOK_NS;
	own->pace_ns = now_ns + PACE_NS;
	begin(own, ret_now);
	if (map != NULL) {
		own->generation = gpumap_generation(map);
		ret = gm_summary_read_rows(map, ret_now);
	}
	if (ret == 0)
		ret = copy_shares(ret_now, &own->said);
	if (!answers)
		ret_now->node.flags |= GPUMAP_CLUSTER_DRAINING;
	if (ret == 0 && answers && now_ns >= own->shares_ns) {
		own->shares_ns = now_ns + LOOK_NS;
		/* A failure leaves those that were said. */
		gm_summary_read_shares(map, ret_now);
	}
	return ret;
}

static uint64_t figures_ns(const struct gm_own *own)
{
	uint64_t ns = gm_peers_count(own->sync->peers) * A_NODE_NS;

	return ns > LOOK_NS ? ns : LOOK_NS;
}

static bool may_put(const struct gm_own *own)
{
	return own->sync->lease->held && gm_peers_known(own->sync->peers) &&
	       !own->is_writing && !own->conflicts && !own->waits_for_key;
}

/* When a look is due, which may end with a put. */
static uint64_t look_due(const struct gm_own *own)
{
	const struct gpumap *map = own->sync->map;
	bool is_urgent =
		!own->is_said ||
		(map != NULL && gpumap_generation(map) != own->generation);
	uint64_t least_ns =
		own->pace_ns > own->put_ns ? own->pace_ns : own->put_ns;

	if (!may_put(own))
		return GM_SYNC_NEVER;
	return is_urgent || own->look_ns < least_ns ? least_ns : own->look_ns;
}

static bool is_worth(const struct gm_own *own, const struct gm_summary *now,
		     uint64_t now_ns)
{
	switch (gm_summary_compare(&own->said, now)) {
	case GM_SUMMARY_FACTS:
		return true;
	case GM_SUMMARY_FIGURES:
		return now_ns >= own->said_ns + figures_ns(own);
	case GM_SUMMARY_SAME:
		break;
	}
	return false;
}

static void tick(struct gm_sync *sync, uint64_t now_ns)
{
	struct gm_own *own = sync->own;
	struct gm_summary now;
	int ret;

	follow_key(own);
	if (now_ns < look_due(own))
		return;
	ret = look(own, &now, now_ns);
	if (ret == 0 && (!own->is_said || is_worth(own, &now, now_ns)))
		put(own, &now, now_ns);
	else
		gm_summary_free(&now);
}

static uint64_t due(const struct gm_sync *sync)
{
	const struct gm_own *own = sync->own;

	return own->waits_for_key || key_of(own) != own->seen ? 0
							      : look_due(own);
}

/* ---- begin and end ------------------------------------------------------- */

static void lease(struct gm_sync *sync)
{
	sync->own->is_said = false;
}

static void agent(struct gm_sync *sync)
{
	sync->own->shares_ns = 0;
	sync->own->look_ns = 0;
}

static int open_own(struct gm_sync *sync)
{
	struct gm_own *own = calloc(1, sizeof(*own));

	if (own == NULL)
		return -ENOMEM;
	sync->own = own;
	own->sync = sync;
	snprintf(own->key, sizeof(own->key), "%s%s", GM_PEERS_PREFIX,
		 sync->config->node);
	return 0;
}

static void close_own(struct gm_sync *sync)
{
	gm_summary_free(&sync->own->said);
	free(sync->own);
	sync->own = NULL;
}

const struct gm_sync_part gm_own_part = {
	.open = open_own,
	.close = close_own,
	.lease = lease,
	.agent = agent,
	.due = due,
	.tick = tick,
};

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/cluster/cluster.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/name.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/segment/directory.h"
#include "gpumap.h"
#include "shm/seq.h"

#define FLAGS \
	(GPUMAP_CLUSTER_BEGIN | GPUMAP_CLUSTER_MORE | GPUMAP_CLUSTER_HEARD)

/* ---- the object ---------------------------------------------------------- */

static const struct gm_block *find_block(const struct gm_daemon *d)
{
	return gm_directory_find(d, GM_KIND_CLUSTER, GM_CLUSTER_OBJECT);
}

/* The block was validated when it was adopted, or this agent wrote it. */
static gm_a64 *words_of(const struct gm_daemon *d, const struct gm_block *block)
{
	return (gm_a64 *)(void *)(d->segment->map.base +
				  (uint64_t)block->unit * GM_UNIT);
}

static gm_a64 *word_of(const struct gm_daemon *d, const struct gm_block *block,
		       size_t at)
{
	return words_of(d, block) + at / 8;
}

/* When all that others said was known last; 0: never, in this cluster. */
static uint64_t heard_before(const struct gm_daemon *d)
{
	const struct gm_block *block = find_block(d);
	struct gm_cluster_image image;

	if (block == NULL)
		return 0;
	gm_seq_read(words_of(d, block), (void *)&image, sizeof(image) / 8);
	return strcmp(image.cluster, d->cluster->cluster) == 0 ? image.heard
							       : 0;
}

/* All that others have said is known now. */
static void hear(struct gm_daemon *d, const struct gm_cluster_publish *ask)
{
	const struct gm_block *block = find_block(d);
	uint64_t now = gm_node_clock_now();

	if (block == NULL)
		return;
	gm_seq_fill(word_of(d, block, offsetof(struct gm_cluster_image, limit)),
		    &ask->limit_ns, 1);
	if ((ask->flags & GPUMAP_CLUSTER_HEARD) != 0)
		gm_seq_fill(word_of(d, block,
				    offsetof(struct gm_cluster_image, heard)),
			    &now, 1);
}

static int put(struct gm_daemon *d, const struct gm_cluster_publish *ask,
	       char *ret_why)
{
	const struct gm_cluster_copies *copies = d->cluster;
	const struct gm_cluster cluster = {
		.cluster = copies->cluster,
		.node = copies->node,
		.owner_uid = geteuid(),
		.n_nodes = copies->list.n,
		.limit = ask->limit_ns,
		.heard = (ask->flags & GPUMAP_CLUSTER_HEARD) != 0
				 ? gm_node_clock_now()
				 : heard_before(d),
		.nodes = (const struct gm_cluster_node *const *)copies->list.of,
	};
	uint64_t *words = malloc(gm_cluster_bytes(&cluster));
	struct gm_put made;
	int ret;

	if (words == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	gm_cluster_build(&cluster, 0, words);
	ret = gm_directory_prepare(d, words, 0, ret_why, &made);
	if (ret == 0)
		gm_directory_store(d, &made);
	free(words);
	return ret;
}

/* A cluster without nodes has no object. */
static int publish(struct gm_daemon *d, const struct gm_cluster_publish *ask,
		   char *ret_why)
{
	int ret = 0;

	if (d->cluster->list.n != 0)
		ret = put(d, ask, ret_why);
	else if (find_block(d) != NULL)
		ret = gm_directory_remove(d, GM_KIND_CLUSTER, GM_CLUSTER_OBJECT,
					  (uint32_t)geteuid(), ret_why);
	if (ret == 0)
		d->cluster->is_changed = false;
	return ret;
}

/* ---- updates ------------------------------------------------------------- */

/* A request, and who made it. */
struct asked {
	struct gm_change change; /* if it waits for its turn */
	struct gm_daemon *d;
	struct gm_connection *connection;
	struct gm_cluster_publish ask;
	struct gm_cluster_update update;
};

static bool is_begun(const struct gm_cluster_copies *copies,
		     const struct gm_cluster_publish *ask)
{
	return memcmp(copies->cluster, ask->cluster, GM_NAME_BYTES) == 0 &&
	       memcmp(copies->node, ask->node, GM_NAME_BYTES) == 0;
}

static bool begins(const struct asked *asked)
{
	return (asked->ask.flags & GPUMAP_CLUSTER_BEGIN) != 0;
}

static int check_update(const struct asked *asked, char *ret_why)
{
	static const struct gm_cluster_list none;
	const struct gm_cluster_copies *copies = asked->d->cluster;

	if (!begins(asked) && copies->publisher != asked->connection)
		return gm_why(ret_why, -ESTALE,
			      "this agent does not know what came before from "
			      "this connection: send all nodes, with "
			      "GPUMAP_CLUSTER_BEGIN");
	if (!begins(asked) && !is_begun(copies, &asked->ask))
		return gm_why(ret_why, -EINVAL,
			      "the cluster or this node has another name than "
			      "before: begin again, with GPUMAP_CLUSTER_BEGIN");
	if (!gm_cluster_list_admits(begins(asked) ? &none : &copies->list,
				    &asked->update))
		return gm_why(ret_why, -E2BIG, "a cluster has at most %u nodes",
			      GM_CLUSTER_NODES);
	return 0;
}

static void begin(struct gm_cluster_copies *copies, const struct asked *asked)
{
	const struct gm_connection *c = asked->connection;

	gm_cluster_list_clear(&copies->list);
	copies->publisher = asked->connection;
	memcpy(copies->cluster, asked->ask.cluster, sizeof(copies->cluster));
	memcpy(copies->node, asked->ask.node, sizeof(copies->node));
	gm_log_of(c->uid, GM_LOG_INFO, "cluster_begun",
		  "cluster=%s node=%s uid=%u pid=%d", copies->cluster,
		  copies->node, (unsigned)c->uid, (int)c->pid);
}

/* Do what a request says that has been checked. */
static int update(struct asked *asked, char *ret_why)
{
	struct gm_cluster_copies *copies = asked->d->cluster;

	if (begins(asked))
		begin(copies, asked);
	gm_cluster_list_apply(&copies->list, &asked->update);
	copies->is_changed = true;
	if ((asked->ask.flags & GPUMAP_CLUSTER_MORE) != 0)
		return 0;
	return publish(asked->d, &asked->ask, ret_why);
}

static void free_asked(struct asked *asked)
{
	gm_cluster_update_drop(&asked->update);
	free(asked);
}

/* ---- the first publication ----------------------------------------------- */

static struct asked *asked_of(struct gm_change *change)
{
	return gm_owner(change, struct asked, change);
}

static int check(struct gm_change *change)
{
	change->act = GM_CHANGE_OWN;
	return check_update(asked_of(change), change->why);
}

static void proceed(struct gm_change *change)
{
	gm_transactions_end(change, update(asked_of(change), change->why));
}

static void free_change(struct gm_change *change)
{
	free_asked(asked_of(change));
}

static const struct gm_change_kind cluster_kind = {
	.check = check,
	.proceed = proceed,
	.free = free_change,
};

/* Another change may be about to give a free place of the directory to its
 * object, and the cluster has no place yet. */
static bool needs_place(const struct asked *asked)
{
	return (asked->ask.flags & GPUMAP_CLUSTER_MORE) == 0 &&
	       find_block(asked->d) == NULL;
}

/* ---- the request --------------------------------------------------------- */

/* A name, padded with zeros. */
static int check_name(const char name[GM_NAME_BYTES], const char *what,
		      char *ret_why)
{
	static const char zeros[GM_NAME_BYTES];
	size_t n = strnlen(name, GM_NAME_BYTES);
	char why[GM_WHY_BYTES];

	if (n == GM_NAME_BYTES ||
	    memcmp(name + n, zeros, GM_NAME_BYTES - n) != 0)
		return gm_why(ret_why, -EINVAL,
			      "the %s's name is not terminated and padded "
			      "with zeros",
			      what);
	if (gm_name_check(name, why) != 0)
		return gm_why(ret_why, -EINVAL, "the %s's name: %s", what, why);
	return 0;
}

static int check_ask(const struct gm_cluster_publish *ask, char *ret_why)
{
	int ret = check_name(ask->cluster, "cluster", ret_why);

	if (ret == 0)
		ret = check_name(ask->node, "node", ret_why);
	if (ret != 0)
		return ret;
	if ((ask->flags & ~FLAGS) != 0)
		return gm_why(ret_why, -EINVAL, "flags %#x are not known",
			      ask->flags & ~FLAGS);
	if (ask->limit_ns == 0 || ask->limit_ns > INT64_MAX)
		return gm_why(ret_why, -EINVAL,
			      "limit_ns is a time above 0 and below 2^63");
	return 0;
}

/* Is there nothing to publish, and only a time to store? */
static bool is_plain(const struct gm_connection *c,
		     const struct gm_cluster_publish *ask)
{
	const struct gm_cluster_copies *copies = c->server->d->cluster;

	return ask->n_entries == 0 &&
	       (ask->flags & (GPUMAP_CLUSTER_BEGIN | GPUMAP_CLUSTER_MORE)) ==
		       0 &&
	       copies->publisher == c && is_begun(copies, ask) &&
	       !copies->is_changed;
}

int gm_cluster_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_cluster_publish ask;
	struct asked *asked;
	int ret;

	memcpy(&ask, r->body, sizeof(ask));
	if (!gm_connection_is_sync(c))
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not publish what nodes say: root may, uid "
			"%u, which runs the agent, and the user in [cluster] "
			"of gpumapd.conf",
			(unsigned)c->uid, (unsigned)geteuid());
	ret = check_ask(&ask, c->server->why);
	if (ret != 0)
		return ret;
	if (is_plain(c, &ask) && r->tail_bytes == 0) {
		hear(c->server->d, &ask);
		return gm_connection_reply(c, &r->header, NULL);
	}
	asked = calloc(1, sizeof(*asked));
	if (asked == NULL)
		return -ENOMEM;
	ret = gm_cluster_update_take(r->tail, r->tail_bytes, ask.n_entries,
				     gm_node_clock_now(), c->server->why,
				     &asked->update);
	if (ret != 0) {
		free(asked);
		return ret;
	}
	asked->d = c->server->d;
	asked->connection = c;
	asked->ask = ask;
	if (needs_place(asked)) {
		asked->change.kind = &cluster_kind;
		asked->change.bytes = sizeof(*asked) + r->tail_bytes;
		return gm_transactions_add(c, &r->header, &asked->change);
	}
	ret = check_update(asked, c->server->why);
	if (ret == 0)
		ret = update(asked, c->server->why);
	free_asked(asked);
	if (ret == 0)
		gm_connection_reply(c, &r->header, NULL);
	return ret;
}

void gm_cluster_connection_dropped(struct gm_connection *c)
{
	struct gm_cluster_copies *copies = c->server->d->cluster;

	if (copies->publisher != c)
		return;
	copies->publisher = NULL;
	gm_log_of(c->uid, GM_LOG_INFO, "cluster_left",
		  "cluster=%s node=%s uid=%u pid=%d", copies->cluster,
		  copies->node, (unsigned)c->uid, (int)c->pid);
}

void gm_cluster_exit(struct gm_daemon *d)
{
	gm_cluster_list_clear(&d->cluster->list);
}

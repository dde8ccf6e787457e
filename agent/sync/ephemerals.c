/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/ephemerals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS  UINT64_C(1000000000)  /* after what has failed */
#define LATE_NS   UINT64_C(60000000000) /* a write comes no later */
#define DELETIONS 16u                   /* that the store has at a time */

struct gm_ephemeral {
	LIST_ENTRY(gm_ephemeral) entry;
	struct gm_ephemerals *all;
	struct gm_sync_client *client; /* NULL: gone, it is to be deleted */
	uid_t uid;
	uint64_t expected; /* revision that the value was to replace */
	uint64_t revision; /* 0: not known */
	uint64_t found;    /* revision of the key, as it was looked at */
	bool is_found;     /* with this value, under this node's lease */
	uint64_t late_ns;  /* when not to look any more; 0: no need to */
	uint64_t due_ns;   /* of the next look or deletion */
	bool is_written;   /* a request to the store is on its way */
	bool is_lost;      /* with the lease, while it was on its way */
	bool waits;        /* until the store has fewer deletions */
	struct gm_store_write deletion;
	struct gm_store_list look;
	char key[GM_STORE_KEY_BYTES];
	size_t bytes;
	char value[];
};

void gm_ephemerals_init(struct gm_ephemerals *all, struct gm_sync *sync)
{
	all->sync = sync;
	LIST_INIT(&all->list);
}

static void forget(struct gm_ephemeral *one)
{
	LIST_REMOVE(one, entry);
	free(one);
}

/* ---- deleting ------------------------------------------------------------ */

static void settle(struct gm_ephemeral *one);

static void settle_next(struct gm_ephemerals *all)
{
	struct gm_ephemeral *one;

	LIST_FOREACH(one, &all->list, entry)
	{
		if (one->waits) {
			one->waits = false;
			settle(one);
			return;
		}
	}
}

static void deleted(struct gm_store_write *write,
		    const struct gm_store_result *result)
{
	struct gm_ephemeral *one =
		(void *)((char *)write -
			 offsetof(struct gm_ephemeral, deletion));
	struct gm_ephemerals *all = one->all;

	one->is_written = false;
	all->n_deletions--;
	if (result->status == 0 || result->status == -ESTALE ||
	    result->status == -ECANCELED || one->is_lost)
		forget(one);
	else
		one->due_ns = gm_sync_now() + AGAIN_NS;
	settle_next(all);
}

/* Delete it, if its client is gone and its revision is known. */
static void settle(struct gm_ephemeral *one)
{
	if (one->client != NULL || one->is_written || one->revision == 0)
		return;
	one->due_ns = GM_SYNC_NEVER;
	one->waits = one->all->n_deletions == DELETIONS;
	if (one->waits)
		return;
	one->deletion = (struct gm_store_write){ .key = one->key,
						 .expected = one->revision,
						 .done = deleted };
	one->is_written =
		gm_store_cas(one->all->sync->store, &one->deletion) == 0;
	if (one->is_written)
		one->all->n_deletions++;
	else
		one->due_ns = gm_sync_now() + AGAIN_NS;
}

void gm_ephemerals_client_gone(struct gm_ephemerals *all,
			       const struct gm_sync_client *client)
{
	struct gm_ephemeral *one;

	LIST_FOREACH(one, &all->list, entry)
	{
		if (one->client != client)
			continue;
		one->client = NULL;
		settle(one);
	}
}

uint64_t gm_ephemerals_due(const struct gm_ephemerals *all)
{
	uint64_t due_ns = GM_SYNC_NEVER;
	const struct gm_ephemeral *one;

	LIST_FOREACH(one, &all->list, entry)
	if (one->due_ns < due_ns)
		due_ns = one->due_ns;
	return due_ns;
}

/* ---- looking ------------------------------------------------------------- */

/* Has another process of this node written what was found?  @perhaps: its write
 * is on its way, and it may have. */
static bool is_anothers(const struct gm_ephemeral *one, bool perhaps)
{
	const struct gm_ephemeral *other;

	LIST_FOREACH(other, &one->all->list, entry)
	if (other != one && strcmp(other->key, one->key) == 0 &&
	    (perhaps ? other->late_ns == 0 && other->revision == 0
		     : other->revision == one->found))
		return true;
	return false;
}

static void look_again(struct gm_ephemeral *one)
{
	one->due_ns = gm_sync_now() + AGAIN_NS;
}

static struct gm_ephemeral *one_of(struct gm_store_list *look)
{
	return (void *)((char *)look - offsetof(struct gm_ephemeral, look));
}

static void found(struct gm_store_list *look, const struct gm_store_event *put)
{
	struct gm_ephemeral *one = one_of(look);

	one->found = put->revision;
	one->is_found = put->value != NULL && put->bytes == one->bytes &&
			memcmp(put->value, one->value, one->bytes) == 0 &&
			put->lease == one->all->sync->lease->id;
}

/* The write was carried out, may be yet, or can be no more. */
static void looked(struct gm_store_list *look,
		   const struct gm_store_result *result)
{
	struct gm_ephemeral *one = one_of(look);

	one->is_written = false;
	if (one->is_lost || result->status == -ECANCELED) {
		forget(one);
	} else if (result->status != 0 || one->found == one->expected) {
		look_again(one);
	} else if (!one->is_found || is_anothers(one, false)) {
		forget(one);
	} else if (is_anothers(one, true)) {
		look_again(one);
	} else {
		one->revision = one->found;
		settle(one);
	}
}

/* See whether a write without an answer was carried out. */
static void look_at(struct gm_ephemeral *one)
{
	one->found = 0;
	one->is_found = false;
	one->due_ns = GM_SYNC_NEVER;
	one->look = (struct gm_store_list){
		.prefix = one->key, .one = true, .item = found, .done = looked
	};
	one->is_written = gm_store_list(one->all->sync->store, &one->look) == 0;
	if (!one->is_written)
		look_again(one);
}

void gm_ephemerals_tick(struct gm_ephemerals *all, uint64_t now_ns)
{
	struct gm_ephemeral *one, *next;

	for (one = LIST_FIRST(&all->list); one != NULL; one = next) {
		next = LIST_NEXT(one, entry);
		if (one->due_ns > now_ns)
			continue;
		if (one->revision == 0 && now_ns >= one->late_ns)
			forget(one);
		else if (one->revision == 0)
			look_at(one);
		else
			settle(one);
	}
}

/* ---- writing ------------------------------------------------------------- */

struct gm_ephemeral *gm_ephemerals_begin(struct gm_ephemerals *all,
					 struct gm_sync_client *client,
					 const struct gm_store_write *write)
{
	struct gm_ephemeral *one = calloc(1, sizeof(*one) + write->bytes);

	if (one == NULL)
		return NULL;
	one->all = all;
	one->client = client;
	one->uid = client->uid;
	one->due_ns = GM_SYNC_NEVER;
	one->is_written = true;
	one->expected = write->expected;
	one->bytes = write->bytes;
	strcpy(one->key, write->key);
	memcpy(one->value, write->value, write->bytes);
	LIST_INSERT_HEAD(&all->list, one, entry);
	return one;
}

int gm_ephemerals_end(struct gm_ephemeral *one, int status, uint64_t revision)
{
	bool is_lost = one->is_lost;

	one->is_written = false;
	if ((status != 0 && status != -ETIMEDOUT) || is_lost) {
		forget(one);
	} else if (status == 0) {
		one->revision = revision;
		settle(one);
	} else {
		one->due_ns = gm_sync_now() + AGAIN_NS;
		one->late_ns = gm_sync_now() + LATE_NS;
	}
	return status == 0 && is_lost ? -ETIMEDOUT : status;
}

void gm_ephemerals_replaced(struct gm_ephemerals *all, const char *key,
			    uint64_t revision)
{
	struct gm_ephemeral *one, *next;

	for (one = LIST_FIRST(&all->list); one != NULL; one = next) {
		next = LIST_NEXT(one, entry);
		if (one->revision == revision && !one->is_written &&
		    strcmp(one->key, key) == 0)
			forget(one);
	}
}

void gm_ephemerals_saw(struct gm_ephemerals *all,
		       const struct gm_store_event *put)
{
	struct gm_ephemeral *one;

	LIST_FOREACH(one, &all->list, entry)
	if (one->revision == 0 && !one->is_written &&
	    strcmp(one->key, put->key) == 0)
		one->due_ns = 0;
}

uint32_t gm_ephemerals_count(const struct gm_ephemerals *all, uid_t uid)
{
	const struct gm_ephemeral *one;
	uint32_t n = 0;

	LIST_FOREACH(one, &all->list, entry)
	n += one->uid == uid;
	return n;
}

/* ---- losing -------------------------------------------------------------- */

void gm_ephemerals_lost(struct gm_ephemerals *all,
			void (*told)(struct gm_sync_client *client))
{
	struct gm_ephemeral *one, *next;
	struct gm_sync_client *last = NULL;

	for (one = LIST_FIRST(&all->list); one != NULL; one = next) {
		next = LIST_NEXT(one, entry);
		/* Values of a client may not be next to each other; hearing it
		 * twice does no harm. */
		if (one->client != NULL && one->client != last)
			told(one->client);
		last = one->client;
		if (one->is_written)
			one->is_lost = true;
		else
			forget(one);
	}
}

void gm_ephemerals_free(struct gm_ephemerals *all)
{
	while (!LIST_EMPTY(&all->list))
		forget(LIST_FIRST(&all->list));
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/ephemerals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS  UINT64_C(1000000000) /* after a deletion that failed */
#define DELETIONS 16u                  /* that the store has at a time */

struct gm_ephemeral {
	LIST_ENTRY(gm_ephemeral) entry;
	struct gm_ephemerals *all;
	struct gm_sync_client *client; /* NULL: gone, it is to be deleted */
	uid_t uid;
	uint64_t revision; /* 0: not known */
	uint64_t due_ns;   /* of the next deletion; GM_SYNC_NEVER: none */
	bool is_written;   /* a write is on its way */
	bool is_lost;      /* with the lease, while it was on its way */
	bool waits;        /* until the store has fewer deletions */
	struct gm_store_write deletion;
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

void gm_ephemerals_tick(struct gm_ephemerals *all, uint64_t now_ns)
{
	struct gm_ephemeral *one;

	LIST_FOREACH(one, &all->list, entry)
	if (one->due_ns <= now_ns)
		settle(one);
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
	if (status == 0)
		one->revision = revision;
	if ((status != 0 && status != -ETIMEDOUT) || is_lost)
		forget(one);
	else
		settle(one);
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
	{
		if (one->revision != 0 || put->value == NULL ||
		    one->bytes != put->bytes ||
		    strcmp(one->key, put->key) != 0 ||
		    memcmp(one->value, put->value, put->bytes) != 0)
			continue;
		one->revision = put->revision;
		settle(one);
	}
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

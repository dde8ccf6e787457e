/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/value_waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store/keys.h"

/* Waits of one client.  One more ends the oldest, which the client has given
 * up. */
#define WAITS_MAX 8u

struct gm_value_wait {
	TAILQ_ENTRY(gm_value_wait) entry;
	struct gm_sync_client *client;
	struct gm_control request;
	uint64_t until_ns;
	char prefix[GM_STORE_KEY_BYTES];
};

/* FNV-1a. */
#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static uint64_t hash_more(uint64_t hash, char c)
{
	return (hash ^ (unsigned char)c) * UINT64_C(0x100000001b3);
}

static size_t entry_of(uint64_t hash)
{
	return (hash ^ hash >> 32) % GM_VALUE_WAITS_FOLDERS;
}

void gm_value_waits_init(struct gm_value_waits *waits, uint64_t first)
{
	memset(waits, 0, sizeof(*waits));
	TAILQ_INIT(&waits->list);
	waits->first = first;
	waits->count = first;
}

/* The count of the last change in the folder of a prefix, or of another. */
static uint64_t last_change(const struct gm_value_waits *waits,
			    const char *prefix)
{
	const char *end = strrchr(prefix, '/');
	uint64_t hash = HASH_BEGIN;

	for (const char *at = prefix; end != NULL && at <= end; at++)
		hash = hash_more(hash, *at);
	return waits->changed[entry_of(hash)];
}

static void note_change(struct gm_value_waits *waits, const char *key)
{
	uint64_t hash = HASH_BEGIN;

	waits->count++;
	for (const char *at = key; *at != '\0'; at++) {
		hash = hash_more(hash, *at);
		if (*at == '/')
			waits->changed[entry_of(hash)] = waits->count;
	}
}

static void answer(const struct gm_value_waits *waits,
		   struct gm_sync_client *client,
		   const struct gm_control *request)
{
	const struct gm_sync_value_wait_reply body = { .seen = waits->count };
	const struct gm_sync_reply reply = { .body = &body,
					     .body_bytes = sizeof(body) };

	gm_sync_client_reply(client, request, &reply);
}

static void end(struct gm_value_waits *waits, struct gm_value_wait *wait)
{
	TAILQ_REMOVE(&waits->list, wait, entry);
	free(wait);
}

void gm_value_waits_changed(struct gm_value_waits *waits, const char *key)
{
	struct gm_value_wait *wait, *next;

	note_change(waits, key);
	for (wait = TAILQ_FIRST(&waits->list); wait != NULL; wait = next) {
		next = TAILQ_NEXT(wait, entry);
		if (!gm_keys_begins(key, wait->prefix))
			continue;
		answer(waits, wait->client, &wait->request);
		end(waits, wait);
	}
}

/* Make room for one more of the client's. */
static void limit(struct gm_value_waits *waits, struct gm_sync_client *client)
{
	struct gm_value_wait *wait, *oldest = NULL;
	unsigned int n = 0;

	TAILQ_FOREACH(wait, &waits->list, entry)
	{
		if (wait->client != client)
			continue;
		if (oldest == NULL)
			oldest = wait;
		n++;
	}
	if (n < WAITS_MAX)
		return;
	gm_sync_client_refuse(client, &oldest->request, -ECANCELED,
			      "this process has begun more waits");
	end(waits, oldest);
}

void gm_value_waits_add(struct gm_value_waits *waits,
			struct gm_sync_client *client,
			const struct gm_sync_message *message,
			const char *prefix)
{
	const struct gm_sync_value_wait *body = message->body;
	uint64_t now_ns = gm_sync_now();
	struct gm_value_wait *wait;

	if (body->seen < waits->first || body->seen > waits->count ||
	    body->seen < last_change(waits, prefix)) {
		answer(waits, client, message->header);
		return;
	}
	limit(waits, client);
	wait = calloc(1, sizeof(*wait));
	if (wait == NULL) {
		gm_sync_client_refuse(client, message->header, -ENOMEM, NULL);
		return;
	}
	wait->client = client;
	wait->request = *message->header;
	wait->until_ns = body->timeout_ns < GM_SYNC_NEVER - now_ns
				 ? now_ns + body->timeout_ns
				 : GM_SYNC_NEVER;
	strcpy(wait->prefix, prefix);
	TAILQ_INSERT_TAIL(&waits->list, wait, entry);
}

void gm_value_waits_drop(struct gm_value_waits *waits,
			 const struct gm_sync_client *client)
{
	struct gm_value_wait *wait, *next;

	for (wait = TAILQ_FIRST(&waits->list); wait != NULL; wait = next) {
		next = TAILQ_NEXT(wait, entry);
		if (client == NULL || wait->client == client)
			end(waits, wait);
	}
}

uint64_t gm_value_waits_due(const struct gm_value_waits *waits)
{
	uint64_t due_ns = GM_SYNC_NEVER;
	const struct gm_value_wait *wait;

	TAILQ_FOREACH(wait, &waits->list, entry)
	if (wait->until_ns < due_ns)
		due_ns = wait->until_ns;
	return due_ns;
}

void gm_value_waits_tick(struct gm_value_waits *waits, uint64_t now_ns)
{
	struct gm_value_wait *wait, *next;

	for (wait = TAILQ_FIRST(&waits->list); wait != NULL; wait = next) {
		next = TAILQ_NEXT(wait, entry);
		if (wait->until_ns > now_ns)
			continue;
		gm_sync_client_refuse(wait->client, &wait->request, -ETIMEDOUT,
				      "nothing has changed in time");
		end(waits, wait);
	}
}

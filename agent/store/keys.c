/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/store/keys.h"

#include <stdlib.h>
#include <string.h>

/* The place of the first entry that is not below @key. */
static size_t place(const struct gm_keys *keys, const char *key)
{
	size_t low = 0, high = keys->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(keys->list[middle]->key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_at(const struct gm_keys *keys, size_t at, const char *key)
{
	return at < keys->n && strcmp(keys->list[at]->key, key) == 0;
}

struct gm_key *gm_keys_find(const struct gm_keys *keys, const char *key)
{
	size_t at = place(keys, key);

	return is_at(keys, at, key) ? keys->list[at] : NULL;
}

struct gm_key *gm_keys_add(struct gm_keys *keys, const char *key)
{
	size_t at = place(keys, key), room = keys->room;
	struct gm_key *entry, **list;

	if (is_at(keys, at, key))
		return keys->list[at];
	if (keys->n == GM_STORE_KEYS || strlen(key) >= sizeof(entry->key))
		return NULL;
	if (keys->n == room) {
		room = room != 0 ? 2 * room : 16;
		list = realloc(keys->list, room * sizeof(struct gm_key *));
		if (list == NULL)
			return NULL;
		keys->list = list;
		keys->room = room;
	}
	entry = calloc(1, keys->entry_bytes);
	if (entry == NULL)
		return NULL;
	strcpy(entry->key, key);
	memmove(keys->list + at + 1, keys->list + at,
		(keys->n - at) * sizeof(struct gm_key *));
	keys->list[at] = entry;
	keys->n++;
	return entry;
}

void gm_keys_remove(struct gm_keys *keys, size_t at)
{
	free(keys->list[at]);
	keys->n--;
	memmove(keys->list + at, keys->list + at + 1,
		(keys->n - at) * sizeof(struct gm_key *));
}

void gm_keys_free(struct gm_keys *keys)
{
	while (keys->n > 0)
		gm_keys_remove(keys, keys->n - 1);
	free(keys->list);
	keys->list = NULL;
	keys->room = 0;
}

bool gm_keys_begins(const char *key, const char *prefix)
{
	return strncmp(key, prefix, strlen(prefix)) == 0;
}

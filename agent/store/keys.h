/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * keys - what is known of a store's keys, in their order.
 *
 * An entry begins with struct gm_key; the user of the table says how many bytes
 * it has behind that.
 */
#ifndef GM_KEYS_H
#define GM_KEYS_H

#include "agent/store/store.h"

struct gm_key {
	uint64_t revision; /* 0: there is no value */
	uint64_t mark;     /* the user's */
	char key[GM_STORE_KEY_BYTES];
};

struct gm_keys {
	size_t entry_bytes; /* at least those of struct gm_key */
	size_t n;
	size_t room;
	struct gm_key **list;
};

/* The entry, or NULL. */
struct gm_key *gm_keys_find(const struct gm_keys *keys, const char *key);

/* The entry, a new one of zeros if there was none; NULL: out of memory, or
 * GM_STORE_KEYS are there. */
struct gm_key *gm_keys_add(struct gm_keys *keys, const char *key);

/* Remove the entry at a place. */
void gm_keys_remove(struct gm_keys *keys, size_t at);

void gm_keys_free(struct gm_keys *keys);

/* Does the key begin with @prefix? */
bool gm_keys_begins(const char *key, const char *prefix);

#endif

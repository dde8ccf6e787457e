/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store_etcd - a store in etcd, by the JSON gateway of its version 3.
 *
 * A revision is etcd's mod_revision.  A watch lists its keys, in pages of one
 * revision, and then has etcd tell of all changes after that revision.  When
 * the connection ends, or etcd has forgotten that revision, or is another
 * cluster, the watch lists anew, and says what is different.
 *
 * While nothing else is asked, a watch asks each 2 s for the number of its
 * keys, which a member answers only if it has a leader: a member that hangs,
 * or that is cut off from the others, is left for the next.
 */
#ifndef GM_STORE_ETCD_H
#define GM_STORE_ETCD_H

#include "agent/store/keys.h"
#include "agent/store/store_http.h"

struct gm_store_etcd_lease;
struct gm_store_etcd_watch;

struct gm_store_etcd {
	struct gm_store store;
	struct gm_store_http http;
	char *root; /* before each key */
	size_t root_bytes;
	struct gm_store_etcd_lease *leases;
	struct gm_store_etcd_watch *watches;
};

/* A list of keys, in pages. */
struct gm_store_etcd_list {
	struct gm_store_call call; /* the first: a call is its list */
	struct gm_store_etcd *etcd;
	const char *prefix;
	bool one;  /* the key @prefix alone */
	bool keys; /* without their values */
	/* A key, or one whose value is refused. */
	void (*item)(struct gm_store_etcd_list *list,
		     const struct gm_store_event *put);
	/* May free the list. */
	void (*end)(struct gm_store_etcd_list *list, int status);
	void *data;
	char *from;         /* the next page's key in base64; NULL: the first */
	uint64_t revision;  /* of all pages */
	uint64_t cluster;   /* etcd's own number */
	unsigned int limit; /* keys of a page */
	unsigned int n_keys; /* so far */
};

/* List; end() comes from gm_store_http_run(). */
void gm_store_etcd_list_begin(struct gm_store_etcd_list *list);
void gm_store_etcd_list_free(struct gm_store_etcd_list *list);

/* A new string in base64 of the key, or of what is behind all keys that begin
 * with it.  NULL: out of memory. */
json_t *gm_store_etcd_key(const struct gm_store_etcd *etcd, const char *key);
json_t *gm_store_etcd_end(const struct gm_store_etcd *etcd, const char *prefix);

/* Read a key and its value.  Returns false if it is no key of a store.  The
 * event's strings are valid until the next call. */
bool gm_store_etcd_read(const struct gm_store_etcd *etcd, const json_t *kv,
			struct gm_store_event *ret_put);

int gm_store_etcd_watch_add(struct gm_store *store,
			    struct gm_store_watch *watch);

/* Do what is due, and tell when the next is. */
void gm_store_etcd_watch_run(struct gm_store_etcd *etcd);
uint64_t gm_store_etcd_watch_due(const struct gm_store_etcd *etcd);
void gm_store_etcd_watch_free(struct gm_store_etcd *etcd);

#endif

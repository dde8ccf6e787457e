/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store_rig - a store that a test waits for, and a record of what it said.
 */
#ifndef GM_TEST_SUPPORT_STORE_RIG_H
#define GM_TEST_SUPPORT_STORE_RIG_H

#include <stdint.h>

#include "agent/store/keys.h"

#define RIG_LIMIT_NS UINT64_C(60000000000) /* against hanging */

uint64_t rig_now(void);

/* Open a store, or end the program: nothing can be tested then. */
struct gm_store *rig_open(const struct gm_store_opts *opts);

/* Let the store work until done() says so.  Returns false after the limit. */
bool rig_until(struct gm_store *store, bool (*done)(void *data), void *data);

/* Let it work for a time. */
void rig_run(struct gm_store *store, uint32_t ms);

/* ---- requests, to their end ---------------------------------------------- */

struct rig_result {
	int status;
	uint64_t revision;
	char why[GM_STORE_WHY_BYTES];
	bool done;
};

/* Write a text, or delete for NULL.  Returns the status. */
int rig_put(struct gm_store *store, const char *key, const char *text,
	    struct gm_store_lease *lease, struct rig_result *ret_result);
int rig_cas(struct gm_store *store, const char *key, const char *text,
	    uint64_t expected, struct rig_result *ret_result);

/* The text of a key, "" for none, "?" for one that is refused, and its
 * revision.  Returns the status. */
int rig_get(struct gm_store *store, const char *key,
	    char ret_text[GM_STORE_VALUE_BYTES + 1], uint64_t *ret_revision);

/* How many keys begin with it; -errno. */
int rig_count(struct gm_store *store, const char *prefix);

/* Delete every key. */
void rig_remove_all(struct gm_store *store);

/* ---- watches ------------------------------------------------------------- */

struct rig_value {
	struct gm_key key;
	uint32_t hash; /* of the value */
	bool refused;
	char text[64]; /* the value, or its beginning */
};

struct rig_watch {
	struct gm_store_watch watch;
	struct gm_keys values; /* as the events say */
	unsigned int n_puts;
	unsigned int n_deletes;
	unsigned int n_resyncs;
	unsigned int n_cuts;
	unsigned int n_wrong; /* events that make no sense */
	char why[GM_STORE_WHY_BYTES];
};

void rig_watch(struct gm_store *store, struct rig_watch *watch,
	       const char *prefix);

/* The text of a key as the watch has it, "" for none. */
const char *rig_seen(const struct rig_watch *watch, const char *key);

/* Wait until the watch has the text, "" for none. */
bool rig_sees(struct gm_store *store, struct rig_watch *watch, const char *key,
	      const char *text);

/* Wait until it was said so often. */
bool rig_resyncs(struct gm_store *store, struct rig_watch *watch,
		 unsigned int n);
bool rig_cuts(struct gm_store *store, struct rig_watch *watch, unsigned int n);

void rig_watch_end(struct rig_watch *watch);

/* ---- leases -------------------------------------------------------------- */

struct rig_lease {
	struct gm_store_lease lease;
	unsigned int n_held;
	unsigned int n_lost;
};

/* Get a lease, and wait until it is held. */
bool rig_lease(struct gm_store *store, struct rig_lease *lease, uint32_t ms);

#endif

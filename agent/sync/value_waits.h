/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * value_waits - processes that wait until a value below a prefix changes.
 *
 * Changes are counted.  A table of fixed size has the count of the last change
 * below each folder of keys; folders may share an entry, so a wait that begins
 * may end at once without a change.  One that goes on ends with a change alone.
 * Counts begin anywhere, so that those of another gpumap-sync are known as
 * such.
 */
#ifndef GM_VALUE_WAITS_H
#define GM_VALUE_WAITS_H

#include "agent/sync/client.h"

struct gm_value_wait;

#define GM_VALUE_WAITS_FOLDERS 4096u /* a power of two */

struct gm_value_waits {
	uint64_t first; /* count of no change */
	uint64_t count;
	uint64_t changed[GM_VALUE_WAITS_FOLDERS];
	TAILQ_HEAD(, gm_value_wait) list; /* the oldest first */
};

void gm_value_waits_init(struct gm_value_waits *waits, uint64_t first);

/* A key has changed: answer those that wait for it. */
void gm_value_waits_changed(struct gm_value_waits *waits, const char *key);

/* Answer a request of @client, now or later.  @prefix is one of the store's. */
void gm_value_waits_add(struct gm_value_waits *waits,
			struct gm_sync_client *client,
			const struct gm_sync_message *message,
			const char *prefix);

/* Forget those of a client that is gone; NULL: of all. */
void gm_value_waits_drop(struct gm_value_waits *waits,
			 const struct gm_sync_client *client);

uint64_t gm_value_waits_due(const struct gm_value_waits *waits);
void gm_value_waits_tick(struct gm_value_waits *waits, uint64_t now_ns);

#endif

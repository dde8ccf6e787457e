/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store_stories - what a store promises, of whichever back end.
 */
#ifndef GM_TEST_SYNC_STORE_STORIES_H
#define GM_TEST_SYNC_STORE_STORIES_H

#include "agent/store/store.h"

struct store_place {
	struct gm_store_opts opts;
	struct gm_store_opts direct; /* to the same values, and never cut */
	uint32_t ttl_ms;             /* of a short lease */
	/* @opts leads nowhere until heal(). */
	void (*cut)(void);
	void (*heal)(void);
	/* Forget what was before, or NULL. */
	void (*compact)(void);
};

/* Each begins and ends with an empty store. */
void stories_of_values(const struct store_place *place);
void stories_of_cas(const struct store_place *place);
void stories_of_watches(const struct store_place *place);
void stories_of_leases(const struct store_place *place);
void stories_of_cuts(const struct store_place *place);

#endif

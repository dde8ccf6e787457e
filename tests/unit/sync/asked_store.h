/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * asked_store - a store that does nothing: the test sees what it is asked for,
 * answers, and says what its watch has.
 */
#ifndef GM_TEST_UNIT_ASKED_STORE_H
#define GM_TEST_UNIT_ASKED_STORE_H

#include "agent/store/store_backend.h"
#include "tests/support/tap.h"

static struct gm_store store;
static struct gm_store_watch *watch; /* the last one that was begun */

static int take_watch(struct gm_store *of, struct gm_store_watch *theirs)
{
	theirs->own = of;
	watch = theirs;
	return 0;
}

static inline void store_begin(void)
{
	static const struct gm_store_backend backend = { .watch = take_watch };

	store = (struct gm_store){ .backend = &backend,
				   .epoll = -1,
				   .timer = -1,
				   .last = &store.first };
}

/* The oldest write that it was asked for and has not answered, or NULL. */
static inline struct gm_store_write *asked(void)
{
	return store.first != NULL ? GM_STORE_WRITE_OF(store.first) : NULL;
}

static inline unsigned int count_asked(void)
{
	unsigned int n = 0;

	for (const struct gm_store_link *link = store.first; link != NULL;
	     link = link->next)
		n++;
	return n;
}

static inline void answer(int status, uint64_t revision)
{
	struct gm_store_link *link = gm_store_take(&store);

	if (!OK(link != NULL))
		return;
	gm_store_fail(&store, status, "the test's store says %d", status);
	gm_store_finish(&store, link, status, revision);
}

static inline void store_end(void)
{
	struct gm_store_link *link;

	while ((link = gm_store_take(&store)) != NULL)
		gm_store_cancel(&store, link);
}

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sigbus - memory that a client takes away while we use it.
 *
 * A client can punch holes into memory that it may write, and the kernel then
 * may have no page to fill one with: our access ends in SIGBUS.  The handler
 * puts a page of zeroes under the address, so that the access goes on, and
 * leaves a mark on the session, which is ended after the slice in hand.  A
 * SIGBUS anywhere else is ours, and ends the process.
 *
 * The loop registers memory.  It and the slow thread touch it, and take the
 * signal, so one lock holds the list together, and marks are atomics:
 *
 *   GROUND.list	who has it sees what whoever had it before has changed
 *   GROUND.seen	who takes the news back sees the marks that it stands
 *			for
 *
 * Who has touched memory finds its mark without more: he took the signal
 * himself, or what he was handed was handed over after it.
 */
#ifndef GM_WORKER_MEMORY_SIGBUS_H
#define GM_WORKER_MEMORY_SIGBUS_H

#include <stddef.h>

#include "shm/atomic.h"

#define GM_MAPPING_PARTS 4

/* Memory of one client, mapped here.  Zeroed parts are none. */
struct gm_mapping {
	struct {
		char *at;
		size_t bytes;
	} part[GM_MAPPING_PARTS];
	gm_a32 broken;            /* a page of it was missing, 0 or 1 */
	struct gm_mapping *whole; /* whose it is, and is broken with it */
	struct gm_mapping *next;
};

/* 1 once any ground was found broken; who acts on that swaps it for 0. */
extern gm_a32 gm_sigbus_seen;

/* Returns 0 or -errno. */
int gm_sigbus_init(void);

/* From now on, and no longer. */
void gm_sigbus_watch(struct gm_mapping *ground);
void gm_sigbus_unregister(struct gm_mapping *ground);

#endif

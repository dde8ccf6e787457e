/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sigbus - survives access to memory that a client takes away.
 *
 * A client can punch holes into memory that it may write, and the kernel may
 * then have no page to fill one: the worker's access raises SIGBUS.  The
 * handler maps a page of zeroes at the address, so that the access succeeds,
 * and marks the session, which is ended after the current slice.  A SIGBUS at
 * any other address is a bug of the worker, and ends the process.
 *
 * The loop registers memory.  The loop and the slow thread access it, and the
 * handler runs in the thread that accessed it.  One lock protects the list, and
 * marks are atomics:
 *
 *   GROUND.list	a thread that takes the lock sees the changes of the
 *			previous holder
 *   GROUND.seen	a thread that clears gm_sigbus_seen sees the marks made
 *			before it was set
 *
 * A thread sees the marks of its own accesses without this: its own handler set
 * them.  The marks of another thread's job precede the job's return.
 */
#ifndef GM_WORKER_MEMORY_SIGBUS_H
#define GM_WORKER_MEMORY_SIGBUS_H

#include <stddef.h>

#include "shm/atomic.h"

#define GM_MAPPING_PARTS 4

/* Memory of one client, mapped here.  Parts that are zero are unused. */
struct gm_mapping {
	struct {
		char *at;
		size_t bytes;
	} part[GM_MAPPING_PARTS];
	gm_a32 broken; /* a page was missing, 0 or 1 */
	/* The session's memory that this belongs to, and which is marked with
	 * it; or NULL. */
	struct gm_mapping *whole;
	struct gm_mapping *next;
};

/* 1 once any memory was found missing.  The loop sets it to 0 before it handles
 * the marks. */
extern gm_a32 gm_sigbus_seen;

/* Returns 0 or -errno. */
int gm_sigbus_init(void);

/* Start and stop handling faults in this memory. */
void gm_sigbus_watch(struct gm_mapping *mapping);
void gm_sigbus_unregister(struct gm_mapping *mapping);

#endif

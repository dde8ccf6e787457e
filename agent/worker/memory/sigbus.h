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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/atomic.h"

#define GM_MAPPING_PARTS 4

/* Why memory is broken; 0: it is not. */
enum gm_mapping_fault {
	GM_MAPPING_MISSING = 1, /* a page was missing */
	GM_MAPPING_WITHHELD = 2 /* it kept a thread waiting: stall_guard.h */
};

/* Memory of one client, mapped here.  Parts that are zero are unused. */
struct gm_mapping {
	struct {
		char *at;
		size_t bytes;
	} part[GM_MAPPING_PARTS];
	gm_a32 broken; /* enum gm_mapping_fault */
	/* The session's memory that this belongs to, and which is marked with
	 * it; or NULL. */
	struct gm_mapping *whole;
	struct gm_mapping *next;
	uint32_t place; /* of the session's memory: its place */

	/* For the guard. */
	uint32_t n_pinned;    /* it is being replaced: do not unmap it */
	bool is_replaced;     /* all parts are pages of zeroes */
	uint64_t withheld_ns; /* time for which threads waited */
	uint64_t window_ns;   /* since when withheld_ns counts */
};

/* 1 once any memory was found missing.  The loop sets it to 0 before it handles
 * the marks. */
extern gm_a32 gm_sigbus_seen;

/* Returns 0 or -errno. */
int gm_sigbus_init(void);

/* Start and stop handling faults in this memory.  The second waits while the
 * guard replaces the memory. */
void gm_sigbus_watch(struct gm_mapping *mapping);
void gm_sigbus_unregister(struct gm_mapping *mapping);

/*
 * gm_sigbus_withheld - count the time for which a thread waited for memory
 *
 * ret_place	receives the place of its session
 *
 * Returns	the time for which threads waited for memory of that session
 *		within a second, in ns; 0: no such memory is registered
 */
uint64_t gm_sigbus_withheld(const struct gm_mapping *mapping, uint64_t now_ns,
			    uint64_t passed_ns, uint32_t *ret_place);

/* Mark the session as GM_MAPPING_WITHHELD, and replace all its memory by pages
 * of zeroes.  May take as long as the client punches one hole. */
void gm_sigbus_take_away(const struct gm_mapping *mapping);

#endif

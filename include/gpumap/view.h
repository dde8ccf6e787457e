/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/view.h - look a value up in a published table, inline.
 *
 * A view is what a library call such as gpumap_layers_view() fills in: where
 * the entries are, how many, and one word that changes when they no longer
 * hold.  A lookup loads the entry, then that word.  It makes no system call, no
 * function call, and takes no lock.
 *
 * Views belong to one thread: copy the struct for another.  They hold as long
 * as the attachment that filled them, and go on answering from a map whose
 * agent has died or whose segment was retired; gpumap_health() tells.
 *
 * Besides shm/atomic.h this is the only file that names memory orders.  Both
 * loads must stay in this order, so the first is an acquire; on x86 and Arm an
 * aligned 32-bit word is never seen in halves, however it was stored.
 */
#ifndef GPUMAP_VIEW_H
#define GPUMAP_VIEW_H

#include <errno.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Filled by the library.  Read @n if you like; leave the rest alone. */
struct gpumap_view {
	const uint32_t *entries;
	const uint64_t *check; /* the word that changes */
	uint64_t expect;       /* what it says while the entries hold */
	uint64_t key;          /* which object, for gpumap_view_refresh() */
	uint32_t n;            /* entries */
	uint32_t reserved;
};

/*
 * gpumap_view_get - one entry of the table
 *
 * index	0 <= index < view->n
 *
 * Returns	the entry, >= 0: for a layer map, the row that holds layer @index,
 *		which in a damaged map may be a row that does not exist
 *		-EAGAIN		the table was published anew; call
 *				gpumap_view_refresh() and ask again
 *		-ERANGE		no such index
 * Cost		two loads and two compares; no system call
 * Threads	the view's own thread; async-signal-safe
 */
static inline int gpumap_view_get(const struct gpumap_view *view,
				  uint32_t index)
{
	uint32_t entry;

	if (index >= view->n)
		return -ERANGE;
	entry = __atomic_load_n(&view->entries[index],
				__ATOMIC_ACQUIRE); /* SEQ.reuse */
	if (__atomic_load_n(view->check, __ATOMIC_RELAXED) != view->expect)
		return -EAGAIN;
	/* No agent publishes 2^31 or more; a damaged table may say so, and that
	 * must not look like an error. */
	return (int)(entry & INT32_MAX);
}

#ifdef __cplusplus
}
#endif
#endif

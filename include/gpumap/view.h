/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/view.h - look up a value in a published table, a mask, or a threshold,
 * inline.
 *
 * A library call such as gpumap_layers_view() fills in a view: the address of
 * the entries, their number, and one word that changes when they are no longer
 * valid.  A lookup loads the entry, then that word.  Lookups make no system
 * call and no function call, and take no lock.
 *
 * Views belong to one thread: copy the struct for another.  They are valid as
 * long as the attachment that filled them, and still return entries of a map
 * whose agent has died or whose segment was retired; gpumap_health() shows
 * that.
 *
 * Only this file and shm/atomic.h name memory orders.  Both loads must stay in
 * this order, so the first is an acquire; on x86 and Arm an aligned 32-bit word
 * is never torn, however it was stored.
 */
#ifndef GPUMAP_VIEW_H
#define GPUMAP_VIEW_H

#include <errno.h>
#include <stdint.h>

#include <gpumap/policy.h>
#include <gpumap/types.h>

/* Views load 64-bit words of memory that this process cannot write. */
#if !defined(__GCC_ATOMIC_LLONG_LOCK_FREE) || __GCC_ATOMIC_LLONG_LOCK_FREE != 2
#error "64-bit atomic loads need a lock, or a store, on this machine"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Filled by the library.  Callers may read @n; they must not use the rest. */
struct gpumap_view {
	const uint32_t *entries;
	const uint64_t *check; /* the word that changes */
	uint64_t expect;       /* its value while the entries are valid */
	uint32_t n;            /* entries */
	/* For gpumap_view_refresh(): the object's table and its name, and of a
	 * mesh the group's; padded with zeros. */
	uint32_t table;
	char name[GPUMAP_NAME_MAX + 1];
	char group[GPUMAP_NAME_MAX + 1];
	uint64_t spare[2];
};

/*
 * gpumap_view_get - read one entry of the table
 *
 * index	0 <= index < view->n
 *
 * Returns	the entry, >= 0: for a layer map, the row that holds layer
 *		@index, which in a damaged map may be a row that does not exist
 *		-EAGAIN		the table was published again; call
 *				gpumap_view_refresh() and repeat the call
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

#define GPUMAP_MASK_RANK_MAX 4

/* One row's replica of a mask, see gpumap_mask_get(). */
struct gpumap_mask_view {
	const void *data;   /* in this process; NULL: not in a host's memory */
	uint64_t export_id; /* for a device's memory: for gpumap_export_fd() and
			     * gpumap/cuda.h; 0: none.  No two replicas have the
			     * same */
	uint64_t at;        /* bytes, in the export */
	uint64_t bytes;     /* of the tensor; 0: it has none */
	uint64_t version;   /* of the mask; 0: the row has no replica */
	uint64_t shape[GPUMAP_MASK_RANK_MAX];
	uint64_t strides[GPUMAP_MASK_RANK_MAX]; /* bytes */
	uint32_t kind;                          /* enum gpumap_mask_kind */
	uint32_t dtype;                         /* enum gpumap_dtype */
	uint32_t rank;
	uint32_t row;
	uint64_t spare[2]; /* 0 */
};

/* An opened mask.  Filled by the library; callers must not use the fields. */
struct gpumap_mask {
	const uint64_t *check; /* the word that changes */
	uint64_t expect;       /* its value while the views are valid */
	const struct gpumap_mask_view *views; /* of rows */
	uint32_t n_rows;                      /* views */
	uint32_t reserved;
	uint64_t spare[2];
};

struct gpumap;

/* See gpumap/mask.h. */
__attribute__((visibility("default"))) int
gpumap_mask_renew(struct gpumap *map, struct gpumap_mask *mask);

/*
 * gpumap_mask_get - find one row's replica of an opened mask
 *
 * row		of the device table
 * ret_view	receives the replica; it lies in @mask, and all its fields are
 *		of one version
 *
 * After reading the tensor call gpumap_mask_holds(), unless the mask is pinned:
 * the reader may have read parts of a version that was replaced meanwhile.
 *
 * Returns	0
 *		-ENOENT		the row has no replica, or the mask was released
 *		-EAGAIN		it was published again: repeat the call
 *		and the other errors of gpumap_mask_renew()
 * Cost		three loads and three compares; no system call except as
 *		gpumap_mask_renew()
 * Threads	the mask's own thread
 */
static inline int gpumap_mask_get(struct gpumap *map, struct gpumap_mask *mask,
				  uint32_t row,
				  const struct gpumap_mask_view **ret_view)
{
	/* Views are this thread's own memory: nothing to order. */
	if (__atomic_load_n(mask->check, __ATOMIC_RELAXED) != mask->expect) {
		int ret = gpumap_mask_renew(map, mask);

		return ret < 0 ? ret : -EAGAIN;
	}
	if (row >= mask->n_rows || mask->views[row].version == 0)
		return -ENOENT;
	*ret_view = &mask->views[row];
	return 0;
}

/*
 * gpumap_mask_holds - is all that was read of the mask's tensor of one version?
 *
 * The tensor is to be read by ordinary loads, which the processor keeps in
 * order with this call's: not by non-temporal ones, and not by a device.
 *
 * Returns	1, or 0: discard what was read since gpumap_mask_get()
 * Cost		a load and a compare
 * Threads	the mask's own thread
 */
static inline int gpumap_mask_holds(const struct gpumap_mask *mask)
{
	/* All loads that the caller has made must come before this one.  On
	 * processors that keep loads in order only the compiler needs a
	 * fence. */
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("" : : : "memory");
#else
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* SEQ.reuse */
#endif
	return __atomic_load_n(mask->check, __ATOMIC_RELAXED) == mask->expect;
}

/*
 * gpumap_worth - is a row worth it for work of this size?
 *
 * view		from gpumap_policy_view()
 * work		enum gpumap_work
 * size		in its unit
 *
 * Returns	1, or 0: the caller's thread is likely to be done sooner, or
 *		@work is no kind that these headers know
 * Cost		a load and two compares; below gpumap_work_floor() nothing is
 *		loaded.  No system call
 * Threads	any; async-signal-safe
 */
static inline int gpumap_worth(const struct gpumap_policy_view *view,
			       uint32_t work, uint64_t size)
{
	if (size < gpumap_work_floor(work) || work >= GPUMAP_WORKS)
		return 0;
	/* A word has a meaning by itself: nothing to order. */
	return size >= __atomic_load_n(&view->least[work], __ATOMIC_RELAXED);
}

#ifdef __cplusplus
}
#endif
#endif

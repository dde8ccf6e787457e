/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * atomic.h - access memory that other processes access too.
 *
 * Memory orders are named here and in include/gpumap/view.h, nowhere else.  A
 * call with an order has a label in a comment at its call site, such as
 * "SEQ.whole".  The label names an edge between two such calls, and the comment
 * that opens the module describes each edge once.  There are no fences: each
 * edge belongs to the word that carries it, so that race checkers see it.
 *
 *	gm_get, gm_put			relaxed: the value only
 *	gm_get_acquire, gm_put_release	the two ends of a hand-over
 *	gm_get_ordered, gm_put_ordered	sequentially consistent: both ends of a
 *					"I write mine, then look at yours"
 *
 * The macros take the same arguments as those of <stdatomic.h>.  The model
 * checker's build puts a header of its own with the same names before this one.
 */
#ifndef GM_ATOMIC_H
#define GM_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

/* An atomic with a hidden lock would lock within one process only. */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "32-bit atomics need a lock here");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics need a lock here");

/* x86 fetches cache lines in pairs: words of two writers are this many bytes
 * apart. */
#define GM_LINE 128

typedef _Atomic uint32_t gm_a32;
typedef _Atomic uint64_t gm_a64;

_Static_assert(sizeof(gm_a32) == 4 && sizeof(gm_a64) == 8, "padded atomics");

#define gm_get(p)         atomic_load_explicit((p), memory_order_relaxed)
#define gm_get_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define gm_get_ordered(p) atomic_load_explicit((p), memory_order_seq_cst)

#define gm_put(p, v)      atomic_store_explicit((p), (v), memory_order_relaxed)
#define gm_put_release(p, v) \
	atomic_store_explicit((p), (v), memory_order_release)
#define gm_put_ordered(p, v) \
	atomic_store_explicit((p), (v), memory_order_seq_cst)

/* For the few words with several writers; returns the value before. */
#define gm_add_ordered(p, v) \
	atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)
#define gm_or_ordered(p, v) \
	atomic_fetch_or_explicit((p), (v), memory_order_seq_cst)
#define gm_swap_ordered(p, v) \
	atomic_exchange_explicit((p), (v), memory_order_seq_cst)
/* Store v if the value is *expected, which receives the value before.  Returns
 * whether v was stored. */
#define gm_try_ordered(p, expected, v)                                \
	atomic_compare_exchange_strong_explicit((p), (expected), (v), \
						memory_order_seq_cst, \
						memory_order_seq_cst)

/* Let the other hyperthread have the core for a moment. */
static inline void gm_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif

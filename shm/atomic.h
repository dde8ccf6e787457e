/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * atomic.h - how this project touches memory that another process can touch.
 *
 * Memory orders are named here and in include/gpumap/view.h, nowhere else.
 * A call with an order wears a label at its call site, "SEQ.whole" or the
 * like; the label stands for an edge between two such calls, and the edge is
 * described once, in the comment that opens its module.  There are no fences:
 * every edge hangs on the word that carries it, where race checkers see it.
 *
 *	gm_get, gm_put			relaxed: the value, and nothing else
 *	gm_get_acquire, gm_put_release	one end each of a hand-over
 *	gm_get_ordered, gm_put_ordered	sequentially consistent: both ends of a
 *					"I write mine, then look at yours"
 *
 * The macros take what <stdatomic.h> takes.  The model checker's build puts a
 * header of its own with the same names before this one.
 */
#ifndef GM_ATOMIC_H
#define GM_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

/* An atomic that hides a lock would hide it in one process only. */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "32-bit atomics need a lock here");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics need a lock here");

/* x86 fetches cache lines in pairs: two writers keep this far apart. */
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
/* v where it was *expected, which becomes what it was; returns whether. */
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

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * atomic.h - shm/atomic.h for the model checker.
 *
 * The same names over Relacy's atomics, which choose among all the values that
 * C11 lets a load return.  This header stands before the real one in the
 * include path, so shm/ring.h and shm/seq.h are checked as they are.
 *
 * A test may weaken one order by a step, and may hold a thread up before a load
 * with acquire, where chance alone would seldom do so for long enough.
 */
#ifndef GM_ATOMIC_H
#define GM_ATOMIC_H

#include <stdint.h>
#include <string.h>

#include <relacy/relacy.hpp>

#define GM_LINE 128

typedef rl::atomic<uint32_t> gm_a32;
typedef rl::atomic<uint64_t> gm_a64;

/* Where an order is asked for, "gm_seq_fill gm_put_release", or NULL. */
extern const char *gm_weaken;
extern bool gm_weakened;

/* Called with the name of the function that is about to load, or NULL. */
extern void (*gm_before_acquire)(const char *function);

static inline void gm_hold_up(const char *function)
{
	if (gm_before_acquire)
		gm_before_acquire(function);
}

static inline rl::memory_order gm_order(const char *function, const char *macro,
					rl::memory_order asked,
					rl::memory_order weaker)
{
	size_t n;

	if (!gm_weaken)
		return asked;
	n = strlen(function);
	if (strncmp(gm_weaken, function, n) != 0 || gm_weaken[n] != ' ' ||
	    strcmp(gm_weaken + n + 1, macro) != 0)
		return asked;
	gm_weakened = true;
	return weaker;
}

#define GM_ORDER(macro, asked, weaker) \
	gm_order(__func__, macro, rl::mo_##asked, rl::mo_##weaker)

#define gm_get(p) (p)->load(rl::mo_relaxed, $)
#define gm_get_acquire(p)      \
	(gm_hold_up(__func__), \
	 (p)->load(GM_ORDER("gm_get_acquire", acquire, relaxed), $))
#define gm_get_ordered(p) \
	(p)->load(GM_ORDER("gm_get_ordered", seq_cst, acquire), $)

#define gm_put(p, v) (p)->store((v), rl::mo_relaxed, $)
#define gm_put_release(p, v) \
	(p)->store((v), GM_ORDER("gm_put_release", release, relaxed), $)
#define gm_put_ordered(p, v) \
	(p)->store((v), GM_ORDER("gm_put_ordered", seq_cst, release), $)

#define gm_add_ordered(p, v) \
	(p)->fetch_add((v), GM_ORDER("gm_add_ordered", seq_cst, acq_rel), $)
#define gm_or_ordered(p, v)   (p)->fetch_or((v), rl::mo_seq_cst, $)
#define gm_swap_ordered(p, v) (p)->exchange((v), rl::mo_seq_cst, $)
#define gm_try_ordered(p, expected, v) \
	(p)->compare_exchange_strong(  \
		*(expected), (v),      \
		GM_ORDER("gm_try_ordered", seq_cst, acq_rel), $)

#endif

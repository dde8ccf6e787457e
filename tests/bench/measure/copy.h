/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * copy - measure how fast this machine copies bytes, by loops that do nothing
 * else.
 *
 * Past the caches two bare loops of non-temporal stores compete: in order with
 * prefetchnta 2 KiB ahead, and four pages side by side without.  Which is the
 * machine's best depends on its prefetchers, so both are measured and the
 * better one is the baseline.  glibc's memcpy is measured, too.
 *
 * A loop that adds is here, too, because it uses the same threads.
 */
#ifndef GM_COPY_H
#define GM_COPY_H

#include <stddef.h>
#include <stdint.h>

#define GM_COPY_THREADS 64u
/* Bytes that sources need behind their end: prefetches reach past it, and must
 * not fault. */
#define GM_COPY_OVER 4096u

enum gm_copy_way {
	GM_COPY_MEMCPY,
	GM_COPY_IN_ORDER,
	GM_COPY_SIDE_BY_SIDE,
	GM_COPY_WAYS
};

/* The fastest loop of each way on this CPU; @bytes is a multiple of 16 KiB and
 * both pointers are aligned to 64.  NULL: no such loop for this CPU. */
typedef void gm_copy_fn(void *dst, const void *src, size_t bytes);
gm_copy_fn *gm_copy_loop(enum gm_copy_way way);

/* "memcpy", "in order", "side by side" */
const char *gm_copy_name(enum gm_copy_way way);

struct gm_copy {
	void *dst;
	const void *src;
	size_t bytes; /* a multiple of 16 KiB per thread */
	uint32_t n_threads;
	int cpus[GM_COPY_THREADS]; /* a thread is bound to each */
	uint32_t rounds;           /* the whole copy is made this many times */
};

/*
 * gm_copy_run - copy by threads that are bound to CPUs, in equal parts
 *
 * ret_ns	of one round: from the first thread's start to the last one's
 *		end, by rounds
 *
 * Returns	0
 *		-ENOTSUP	there is no such loop for this CPU
 *		and the errors of pthread_create()
 */
int gm_copy_run(const struct gm_copy *copy, enum gm_copy_way way,
		double *ret_ns);

/* Run dst[i] += GM_COPY_ALPHA * src[i] on floats, compiled for this CPU, by
 * threads, as gm_copy_run(). */
#define GM_COPY_ALPHA 3.0f
int gm_copy_run_axpy(const struct gm_copy *copy, double *ret_ns);

#endif

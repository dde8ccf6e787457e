/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * raw - measure the machine's own limits, by which the figures are divided.
 *
 * Each measurement runs between this process, which the caller has bound to a
 * CPU, and a peer on another.  A protocol that does work cannot be faster, but
 * can come close.
 *
 * Edges
 *
 *   RAW.ping   one side stores the number of the turn into its line, the other
 *              sees it; nothing else travels.
 *   RAW.ready  a peer says that it runs, once.
 */
#ifndef GM_RAW_H
#define GM_RAW_H

#include <stdint.h>

#include "shm/atomic.h"

/*
 * gm_raw_trip - pass a number between two CPUs and back, in two cache lines
 *
 * ret_ns	the median of short batches of turns
 *
 * Returns	0, or -ETIMEDOUT: the peer did not run, or stopped
 * Cost		about 5 ms
 */
int gm_raw_trip(int cpu, double *ret_ns);

/*
 * gm_raw_wake - wake a peer that sleeps in poll() on an eventfd
 *
 * n		turns, at most 4096
 * gap_ns	time that this side spins before each, so that the peer sleeps
 *
 * The peer reads its eventfd and answers in shared memory, where this side
 * spins for it.
 *
 * Returns	0, -ETIMEDOUT, or eventfd()'s error
 */
int gm_raw_wake(int cpu, uint32_t n, uint64_t gap_ns, double *ret_ns);

/*
 * gm_raw_attach - measure open, fstat, mmap, the first read, and close
 *
 * path		of a map segment
 *
 * Returns	0, or the error of these calls
 */
int gm_raw_attach(const char *path, double *ret_ns);

#endif

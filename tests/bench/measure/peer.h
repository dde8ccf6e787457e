/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer - run child processes that are bound to CPUs.
 *
 * A peer is forked, bound to a CPU, and killed when it is no longer needed; it
 * dies with its parent.  A peer must not return, print or allocate.
 */
#ifndef GM_PEER_H
#define GM_PEER_H

#include <stdint.h>
#include <sys/types.h>

#define GM_BUSY_MAX 64

/* One spinning process of the lowest priority class on each requested CPU. */
struct gm_busy {
	pid_t pids[GM_BUSY_MAX];
	uint32_t n;
};

/* Bind this thread.  Returns 0 or sched_setaffinity()'s error. */
int gm_peer_pin(int cpu);

/* A CPU that this process may use, other than @cpu, with the nearest number; -1
 * when there is none. */
int gm_peer_other_cpu(int cpu);

/* Allocate zeroed memory that peers will share; exits when there is none. */
void *gm_peer_memory(size_t bytes);

/*
 * gm_peer_start - run a function in a process of its own, on @cpu
 *
 * Returns	its pid, or fork()'s error.  A peer that cannot be bound exits
 *		at once: wait for it with a deadline
 */
pid_t gm_peer_start(int cpu, void (*run)(void *arg), void *arg);

/* Kill a peer and reap it. */
void gm_peer_stop(pid_t pid);

/*
 * gm_busy_start - keep CPUs from going idle, without slowing other processes
 *
 * The host moves virtual CPUs that halt, and the measured times then jump by a
 * factor of four.
 */
void gm_busy_start(struct gm_busy *busy, const int *cpus, uint32_t n);
void gm_busy_stop(struct gm_busy *busy);

/* The facts in /proc about a process. */
struct gm_peer_facts {
	uint64_t minor_faults;
	int cpu; /* CPU where it last ran */
};

/* Returns 0, or -ESRCH: the process has ended, or is hidden from this one. */
int gm_peer_facts(pid_t pid, struct gm_peer_facts *ret_facts);

#endif

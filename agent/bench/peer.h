/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer - CPUs, and processes of our own that are bound to them.
 *
 * A peer is forked, bound to a CPU, and killed when it has served; it dies with
 * its parent.  It must not return, print or allocate.
 */
#ifndef GM_PEER_H
#define GM_PEER_H

#include <stdint.h>
#include <sys/types.h>

#define GM_BUSY_MAX 64

/* One spinner of the lowest class on each CPU that was asked for. */
struct gm_busy {
	pid_t pids[GM_BUSY_MAX];
	uint32_t n;
};

/* Bind this thread.  Returns 0 or what sched_setaffinity() says. */
int gm_peer_pin(int cpu);

/* A CPU that this process may use, other than @cpu and as near to it as their
 * numbers tell; -1 when there is none. */
int gm_peer_other_cpu(int cpu);

/* Zeroed memory that peers will share; exits when there is none. */
void *gm_peer_memory(size_t bytes);

/*
 * gm_peer_start - run a function in a process of its own, on @cpu
 *
 * Returns	its pid, or what fork() says.  A peer that cannot be bound
 *		exits at once: wait for it with a deadline
 */
pid_t gm_peer_start(int cpu, void (*run)(void *arg), void *arg);

/* Kill it and reap it. */
void gm_peer_stop(pid_t pid);

/*
 * gm_busy_start - keep CPUs from going idle, at the cost of nobody who works
 *
 * Virtual CPUs that halt are moved by their host, and what is measured jumps by
 * a factor of four.
 */
void gm_busy_start(struct gm_busy *busy, const int *cpus, uint32_t n);
void gm_busy_stop(struct gm_busy *busy);

/* What /proc says about a process. */
struct gm_peer_facts {
	uint64_t minor_faults;
	int cpu; /* where it last ran */
};

/* Returns 0, or -ESRCH: it is gone, or hidden from this process. */
int gm_peer_facts(pid_t pid, struct gm_peer_facts *ret_facts);

#endif

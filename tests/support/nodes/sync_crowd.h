/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sync_crowd - many nodes of a cluster that are only summaries: a process puts
 * them into a store under leases, and changes some each second.
 */
#ifndef GM_TEST_SUPPORT_SYNC_CROWD_H
#define GM_TEST_SUPPORT_SYNC_CROWD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/support/nodes/sync_nodes.h"

#define CROWD_STORES 4 /* each with a lease for its part of the nodes */
#define CROWD_ROWS   8 /* cards of a node */

/* In memory that both processes have. */
struct crowd_shared {
	_Atomic uint32_t n_put;     /* nodes that are in the store */
	_Atomic uint32_t n_changes; /* that have been acknowledged */
	_Atomic uint32_t n_failed;
	_Atomic uint32_t per_second; /* changes that are wanted */
};

struct crowd {
	pid_t pid; /* 0: it does not run */
	uint32_t n;
	struct crowd_shared *shared;
};

/* Begin to put nodes n0000 to n[@n - 1], and return. */
void crowd_start(struct crowd *crowd, const struct sync_place *place,
		 uint32_t n, uint32_t ttl_ms);

/* Wait until all are in the store.  Returns the milliseconds, or -1. */
int crowd_stands(const struct crowd *crowd);

/* Kill the process: its leases lapse. */
void crowd_kill(struct crowd *crowd);

/* Wait until a node sees so many nodes in this state besides itself.  Returns
 * the milliseconds, or -1 after the limit. */
int crowd_is_seen(const struct sync_node *node, uint32_t n, uint32_t state,
		  uint32_t limit_ms);

/* Kilobytes of a process that are in memory; and those of them that are its
 * own, so without the pages of the map. */
long crowd_resident(pid_t pid);
long crowd_resident_own(pid_t pid);

/* Check that the memory of its own is not more than @kb and @more_kb.  A
 * sanitizer keeps what was freed, so that nothing can be said there. */
void crowd_stays(pid_t pid, long kb, long more_kb);

/* Its milliseconds of a CPU, of user and system. */
uint64_t crowd_cpu_ms(pid_t pid);

#endif

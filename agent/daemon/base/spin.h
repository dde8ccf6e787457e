/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spin - how many workers may spin for work at once.
 *
 * A spinning worker takes a CPU that another thread might have used.  One CPU
 * is always left over; and where the control group has less than two CPUs'
 * time, or its time has just run out, no worker spins: the spin would cost the
 * work itself.
 */
#ifndef GM_DAEMON_BASE_SPIN_H
#define GM_DAEMON_BASE_SPIN_H

#include <stdint.h>

#include "agent/common/cgroup.h"

struct gm_spin {
	uint32_t most;      /* with CPUs enough: allowed CPUs - 1 */
	uint64_t throttled; /* times that the group's time had run out */
	uint64_t until_ns;  /* no spinning before */
	struct gm_cgroup group;
};

/* @root is put before /proc and /sys, NULL for the machine that we run on. */
void gm_spin_init(struct gm_spin *spin, const char *root, uint32_t n_cpus);

/* The limit now; to be read about once a second. */
uint32_t gm_spin_limit(struct gm_spin *spin, uint64_t now_ns);

#endif

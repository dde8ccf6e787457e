/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worth - the least sizes of work of which a device is worth it.
 *
 * The defaults of matrix work and the rule by which timings become a threshold
 * are those of the gam runtime; its default for a kernel over rows is ours for
 * each operation of jobs.
 */
#ifndef GM_WORTH_H
#define GM_WORTH_H

#include <stdint.h>

/* The threshold of enum gpumap_work that no calibration has set, never 0.
 * Threads: any. */
uint64_t gm_worth_default(uint32_t work);

/*
 * gm_worth_least - find the threshold that timings show
 *
 * sizes	@n, ascending, at least one
 * host_ns	how long a host takes for each
 * device_ns	and the device
 * otherwise	the default
 *
 * Returns	the first size for which the device takes no more than 95 % of
 *		the host's time; where there is none, twice the largest size,
 *		or the default if that is more
 * Threads	any
 */
uint64_t gm_worth_least(const uint64_t *sizes, const uint64_t *host_ns,
			const uint64_t *device_ns, uint32_t n,
			uint64_t otherwise);

#endif

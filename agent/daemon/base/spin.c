/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/spin.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#define CALM_NS UINT64_C(10000000000) /* without throttling, to spin again */

/* Has this very group less than two CPUs' time?  "max", or -1 before the
 * unified hierarchy, is no limit. */
static bool is_group_short(const struct gm_cgroup *group)
{
	int64_t quota, period;
	char text[64], more[64];

	if (gm_cgroup_read(group, "cpu.max", text, sizeof(text)))
		return sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) ==
			       2 &&
		       quota / 2 < period;
	return gm_cgroup_read(group, "cpu.cfs_quota_us", text, sizeof(text)) &&
	       gm_cgroup_read(group, "cpu.cfs_period_us", more, sizeof(more)) &&
	       sscanf(text, "%" SCNd64, &quota) == 1 &&
	       sscanf(more, "%" SCNd64, &period) == 1 && quota >= 0 &&
	       quota / 2 < period;
}

/* Has it, or a group that it is in? */
static bool is_short(const struct gm_spin *spin)
{
	struct gm_cgroup group = spin->group;

	do {
		if (is_group_short(&group))
			return true;
	} while (gm_cgroup_climb(&group));
	return false;
}

static uint64_t times_throttled(const struct gm_spin *spin)
{
	return gm_cgroup_stat(&spin->group, "cpu.stat", "nr_throttled");
}

void gm_spin_init(struct gm_spin *spin, const char *root, uint32_t n_cpus)
{
	*spin = (struct gm_spin){ .most = n_cpus ? n_cpus - 1 : 0 };
	gm_cgroup_find(&spin->group, root, "cpu");
	spin->throttled = times_throttled(spin);
}

uint32_t gm_spin_limit(struct gm_spin *spin, uint64_t now_ns)
{
	uint64_t throttled;

	if (!spin->group.path[0] || spin->most == 0)
		return spin->most;
	throttled = times_throttled(spin);
	if (throttled > spin->throttled)
		spin->until_ns = now_ns + CALM_NS;
	spin->throttled = throttled;
	return now_ns < spin->until_ns || is_short(spin) ? 0 : spin->most;
}

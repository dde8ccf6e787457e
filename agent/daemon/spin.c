/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/spin.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/sysfile.h"

#define CALM_NS UINT64_C(10000000000) /* without throttling, to spin again */
#define MOUNT   "/sys/fs/cgroup"

/* Our own directory in the unified hierarchy: the line "0::/path". */
static void find_group(struct gm_spin *spin, const char *root)
{
	char text[4096], path[512];
	char *line;

	spin->group[0] = '\0';
	if (gm_sysfile_path(path, sizeof(path), root, "/proc/self/cgroup") ||
	    gm_sysfile_read(path, text, sizeof(text)) < 0)
		return;
	line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!line)
		return;
	line = strchr(line, '/');
	if (!line)
		return;
	line[strcspn(line, "\n")] = '\0';
	if (gm_sysfile_path(spin->group, sizeof(spin->group), root, "%s%s",
			    MOUNT, line))
		spin->group[0] = '\0';
}

static bool read_file(const char *group, const char *name, char *ret_text,
		      size_t bytes)
{
	char path[576];

	return gm_sysfile_path(path, sizeof(path), NULL, "%s/%s", group,
			       name) == 0 &&
	       gm_sysfile_read(path, ret_text, bytes) >= 0;
}

/* Has this group, or one that it is in, less than two CPUs' time? */
static bool is_short(const struct gm_spin *spin)
{
	char group[sizeof(spin->group)], text[64];
	uint64_t quota, period;
	char *last;

	memcpy(group, spin->group, sizeof(group));
	for (;;) {
		if (read_file(group, "cpu.max", text, sizeof(text)) &&
		    sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) ==
			    2 &&
		    quota / 2 < period)
			return true;
		last = strrchr(group, '/');
		if (!last || !strstr(group, MOUNT "/"))
			return false;
		*last = '\0';
	}
}

static uint64_t times_throttled(const struct gm_spin *spin)
{
	static const char key[] = "nr_throttled ";
	char text[2048];
	char *at;

	if (!read_file(spin->group, "cpu.stat", text, sizeof(text)))
		return 0;
	at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

void gm_spin_init(struct gm_spin *spin, const char *root, uint32_t n_cpus)
{
	*spin = (struct gm_spin){ .most = n_cpus ? n_cpus - 1 : 0 };
	find_group(spin, root);
	if (spin->group[0])
		spin->throttled = times_throttled(spin);
}

uint32_t gm_spin_limit(struct gm_spin *spin, uint64_t now_ns)
{
	uint64_t throttled;

	if (!spin->group[0] || spin->most == 0)
		return spin->most;
	throttled = times_throttled(spin);
	if (throttled > spin->throttled)
		spin->until_ns = now_ns + CALM_NS;
	spin->throttled = throttled;
	return now_ns < spin->until_ns || is_short(spin) ? 0 : spin->most;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/spin.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/read_file.h"

#define CALM_NS UINT64_C(10000000000) /* without throttling, to spin again */
#define MOUNT   "/sys/fs/cgroup"

/* Is @name in a list like "cpu,cpuacct", which ends with @end? */
static bool is_listed(const char *name, const char *list, const char *end)
{
	size_t n = strlen(name);

	for (; list < end; list += strcspn(list, ",:") + 1) {
		if (strncmp(list, name, n) == 0 &&
		    (list[n] == ',' || list[n] == ':'))
			return true;
	}
	return false;
}

/* A line is "number:controllers:/path", in the unified hierarchy "0::/path".
 * The controller of CPU time is in one of the two. */
static const char *find_path(char *text, const char **ret_mount)
{
	const char *path = NULL;
	char *line, *rest = NULL;

	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *list = strchr(line, ':');
		char *end = list ? strchr(list + 1, ':') : NULL;

		if (!end || end[1] != '/')
			continue;
		if (is_listed("cpu", list + 1, end)) {
			*ret_mount = MOUNT "/cpu";
			return end + 1;
		}
		if (strncmp(line, "0::", 3) == 0) {
			*ret_mount = MOUNT;
			path = end + 1;
		}
	}
	return path;
}

/* Leave a group for the one that it is in.  Returns false at the mount. */
static bool climb(char *group)
{
	char *last = strrchr(group, '/');

	if (!last || !strstr(group, MOUNT "/"))
		return false;
	*last = '\0';
	return true;
}

/* In a container the path may be one that only the machine outside knows: what
 * is mounted then is our own group. */
static void find_group(struct gm_spin *spin, const char *root)
{
	char text[4096], file[512];
	const char *mount = NULL, *path;

	spin->group[0] = '\0';
	if (gm_read_file_path(file, sizeof(file), root, "/proc/self/cgroup") ||
	    gm_read_file(file, text, sizeof(text)) < 0)
		return;
	path = find_path(text, &mount);
	if (!path)
		return;
	if (gm_read_file_path(spin->group, sizeof(spin->group), root, "%s%s",
			      mount, strcmp(path, "/") == 0 ? "" : path)) {
		spin->group[0] = '\0';
		return;
	}
	while (access(spin->group, F_OK) != 0 && climb(spin->group))
		;
}

static bool read_file(const char *group, const char *name, char *ret_text,
		      size_t bytes)
{
	char path[576];

	return gm_read_file_path(path, sizeof(path), NULL, "%s/%s", group,
				 name) == 0 &&
	       gm_read_file(path, ret_text, bytes) >= 0;
}

/* Has this very group less than two CPUs' time?  "max", or -1 before the
 * unified hierarchy, is no limit. */
static bool is_group_short(const char *group)
{
	int64_t quota, period;
	char text[64], more[64];

	if (read_file(group, "cpu.max", text, sizeof(text)))
		return sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) ==
			       2 &&
		       quota / 2 < period;
	return read_file(group, "cpu.cfs_quota_us", text, sizeof(text)) &&
	       read_file(group, "cpu.cfs_period_us", more, sizeof(more)) &&
	       sscanf(text, "%" SCNd64, &quota) == 1 &&
	       sscanf(more, "%" SCNd64, &period) == 1 && quota >= 0 &&
	       quota / 2 < period;
}

/* Has it, or a group that it is in? */
static bool is_short(const struct gm_spin *spin)
{
	char group[sizeof(spin->group)];

	memcpy(group, spin->group, sizeof(group));
	do {
		if (is_group_short(group))
			return true;
	} while (climb(group));
	return false;
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

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/memory_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
	const char *mount;
	const char *limit;
	const char *usage;
} hierarchies[] = {
	{ "/sys/fs/cgroup", "memory.max", "memory.current" },
	{ "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
	  "memory.usage_in_bytes" },
};

static bool put(const struct memory_group *group, const char *name,
		uint64_t value)
{
	char path[192];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", group->path, name);
	if (access(path, F_OK) != 0 || (file = fopen(path, "we")) == NULL)
		return false;
	ok = fprintf(file, "%" PRIu64, value) > 0;
	return fclose(file) == 0 && ok;
}

bool memory_group_make(struct memory_group *ret_group, const char *name,
		       uint64_t limit)
{
	for (int old = 0; old < 2; old++) {
		ret_group->is_old = old != 0;
		snprintf(ret_group->path, sizeof(ret_group->path),
			 "%s/gpumap-test.%d.%s", hierarchies[old].mount,
			 (int)getpid(), name);
		if (mkdir(ret_group->path, 0755) != 0)
			continue;
		if (put(ret_group, hierarchies[old].limit, limit))
			return true;
		rmdir(ret_group->path);
	}
	ret_group->path[0] = '\0';
	return false;
}

bool memory_group_enter(const struct memory_group *group)
{
	return put(group, "cgroup.procs", (uint64_t)getpid());
}

bool memory_group_leave(const struct memory_group *group)
{
	return put(group, "../cgroup.procs", (uint64_t)getpid());
}

uint64_t memory_group_usage(const struct memory_group *group)
{
	uint64_t bytes = UINT64_MAX;
	char path[192];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", group->path,
		 hierarchies[group->is_old].usage);
	file = fopen(path, "re");
	if (file == NULL)
		return bytes;
	if (fscanf(file, "%" SCNu64, &bytes) != 1)
		bytes = UINT64_MAX;
	fclose(file);
	return bytes;
}

void memory_group_end(struct memory_group *group)
{
	if (group->path[0] != '\0')
		rmdir(group->path);
	group->path[0] = '\0';
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/cgroup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/read_file.h"

#define MOUNT "/sys/fs/cgroup"

/* Before the unified hierarchy "no limit" is a number: the largest that is a
 * whole number of pages. */
#define NO_LIMIT (UINT64_C(1) << 62)

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
 * The controller is in one of the two: *ret_mount is its name, or "". */
static const char *find_path(char *text, const char *controller,
			     const char **ret_mount)
{
	const char *path = NULL;
	char *line, *rest = NULL;

	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *list = strchr(line, ':');
		char *end = list ? strchr(list + 1, ':') : NULL;

		if (!end || end[1] != '/')
			continue;
		if (is_listed(controller, list + 1, end)) {
			*ret_mount = controller;
			return end + 1;
		}
		if (strncmp(line, "0::", 3) == 0) {
			*ret_mount = "";
			path = end + 1;
		}
	}
	return path;
}

bool gm_cgroup_climb(struct gm_cgroup *group)
{
	char *last = strrchr(group->path, '/');

	if (!last || !strstr(group->path, MOUNT "/"))
		return false;
	*last = '\0';
	return true;
}

void gm_cgroup_find(struct gm_cgroup *ret_group, const char *root,
		    const char *controller)
{
	char text[4096], file[sizeof(ret_group->path)];
	const char *mount = NULL, *path;

	ret_group->path[0] = '\0';
	if (gm_read_file_path(file, sizeof(file), root, "/proc/self/cgroup") ||
	    gm_read_file(file, text, sizeof(text)) < 0)
		return;
	path = find_path(text, controller, &mount);
	if (!path)
		return;
	if (gm_read_file_path(ret_group->path, sizeof(ret_group->path), root,
			      MOUNT "%s%s%s", mount[0] ? "/" : "", mount,
			      strcmp(path, "/") == 0 ? "" : path)) {
		ret_group->path[0] = '\0';
		return;
	}
	while (access(ret_group->path, F_OK) != 0 && gm_cgroup_climb(ret_group))
		;
}

bool gm_cgroup_read(const struct gm_cgroup *group, const char *name,
		    char *ret_text, size_t bytes)
{
	char path[sizeof(group->path) + 64];

	return group->path[0] &&
	       gm_read_file_path(path, sizeof(path), NULL, "%s/%s", group->path,
				 name) == 0 &&
	       gm_read_file(path, ret_text, bytes) >= 0;
}

uint64_t gm_cgroup_stat(const struct gm_cgroup *group, const char *name,
			const char *key)
{
	char text[8192];
	size_t n = strlen(key);
	char *line, *rest = text;

	if (!gm_cgroup_read(group, name, text, sizeof(text)))
		return 0;
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (strncmp(line, key, n) == 0 && line[n] == ' ')
			return strtoull(line + n, NULL, 10);
	}
	return 0;
}

/* A number in a file of its own; UINT64_MAX: "max", no limit, or no file. */
static uint64_t read_bytes(const struct gm_cgroup *group, const char *name)
{
	char text[64], *end;
	uint64_t bytes;

	if (!gm_cgroup_read(group, name, text, sizeof(text)))
		return UINT64_MAX;
	bytes = strtoull(text, &end, 10);
	return end == text || bytes >= NO_LIMIT ? UINT64_MAX : bytes;
}

static uint64_t less(uint64_t from, uint64_t bytes)
{
	return from > bytes ? from - bytes : 0;
}

/* One group's own limit, and what is free below it. */
static uint64_t read_group(const struct gm_cgroup *group, uint64_t *ret_free)
{
	uint64_t limit = read_bytes(group, "memory.max");
	const char *active = "active_file", *inactive = "inactive_file";
	uint64_t used, files;

	*ret_free = UINT64_MAX;
	if (limit != UINT64_MAX) {
		used = read_bytes(group, "memory.current");
	} else {
		limit = read_bytes(group, "memory.limit_in_bytes");
		used = read_bytes(group, "memory.usage_in_bytes");
		active = "total_active_file";
		inactive = "total_inactive_file";
	}
	if (limit == UINT64_MAX || used == UINT64_MAX)
		return limit;
	files = gm_cgroup_stat(group, "memory.stat", active) +
		gm_cgroup_stat(group, "memory.stat", inactive);
	*ret_free = less(limit, less(used, files));
	return limit;
}

uint64_t gm_cgroup_memory(const struct gm_cgroup *group, uint64_t *ret_free)
{
	uint64_t least = UINT64_MAX, least_free = UINT64_MAX;
	struct gm_cgroup at = *group;

	do {
		uint64_t free_bytes, limit = read_group(&at, &free_bytes);

		if (limit < least)
			least = limit;
		if (free_bytes < least_free)
			least_free = free_bytes;
	} while (gm_cgroup_climb(&at));
	if (ret_free)
		*ret_free = least_free;
	return least;
}

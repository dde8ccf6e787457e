/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/lineage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/read_file.h"

#define FIELD_PARENT 4
#define FIELD_START  22

/* Fields are counted behind the name, which may hold anything but ends with the
 * last ')'. */
static int parse(const char *text, struct gm_lineage_member *member)
{
	const char *at = strrchr(text, ')');

	for (int field = 2; at != NULL && field < FIELD_START; field++) {
		at = strchr(at + 1, ' ');
		if (at != NULL && field + 1 == FIELD_PARENT)
			member->parent = (uint32_t)strtoul(at + 1, NULL, 10);
	}
	if (at == NULL)
		return -EPROTO;
	member->start = strtoull(at + 1, NULL, 10);
	return 0;
}

/* The file of the first thread, because that of the process has sums over all
 * threads, which cost milliseconds where there are many. */
int gm_lineage_stat(pid_t pid, struct gm_lineage_member *ret_member)
{
	struct gm_lineage_member member = { .pid = (uint32_t)pid };
	char path[64], text[1024];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid,
		 (int)pid);
	n = gm_read_file(path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ESRCH : n;
	n = parse(text, &member);
	if (n == 0)
		*ret_member = member;
	return n;
}

/* The parent, read between two reads of the child that name it: its pid was its
 * own all the while, because a child is given another parent before the pid of
 * the one that has ended is given away. */
static int read_parent(const struct gm_lineage_member *child,
		       struct gm_lineage_member *ret_parent)
{
	struct gm_lineage_member again;
	int ret = gm_lineage_stat((pid_t)child->parent, ret_parent);

	if (ret == 0)
		ret = gm_lineage_stat((pid_t)child->pid, &again);
	if (ret != 0)
		return ret;
	return again.start == child->start && again.parent == child->parent
		       ? 0
		       : -ESRCH;
}

int gm_lineage_read(pid_t pid, struct gm_lineage_member *ret_line, uint32_t max)
{
	uint32_t n = 1;
	int ret = gm_lineage_stat(pid, &ret_line[0]);

	if (ret != 0)
		return ret;
	while (n < max && ret_line[n - 1].parent != 0 &&
	       read_parent(&ret_line[n - 1], &ret_line[n]) == 0)
		n++;
	return (int)n;
}

uint64_t gm_lineage_now(void)
{
	uint64_t hertz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * hertz +
	       (uint64_t)now.tv_nsec / (1000000000 / hertz);
}

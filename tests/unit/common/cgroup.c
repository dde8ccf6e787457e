/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* cgroup: the memory that a process may have, on machines made of a few
 * files. */

#include "agent/common/cgroup.h"
#include "tests/support/sysfs_tree.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t limit(uint64_t *ret_free)
{
	struct gm_cgroup group;

	gm_cgroup_find(&group, tree.root, "memory");
	return gm_cgroup_memory(&group, ret_free);
}

static void a_machine_without_groups_has_no_limit(void)
{
	uint64_t left = 0;

	EQ(limit(&left), UINT64_MAX);
	EQ(left, UINT64_MAX);
}

static void the_unified_hierarchy_says_max_or_bytes(void)
{
	uint64_t left;

	tree_file("proc/self/cgroup", "0::/a/b\n");
	tree_file("sys/fs/cgroup/a/b/memory.max", "max\n");
	tree_file("sys/fs/cgroup/a/memory.max", "max\n");
	EQ(limit(&left), UINT64_MAX);
	EQ(left, UINT64_MAX);
	tree_file("sys/fs/cgroup/a/b/memory.max", "524288000\n");
	tree_file("sys/fs/cgroup/a/b/memory.current", "209715200\n");
	EQ(limit(&left), 500 * MIB);
	EQ(left, 300 * MIB);
	EQ(limit(NULL), 500 * MIB);
}

/* Page cache goes when the group needs memory; shared memory does not. */
static void files_that_were_read_are_free(void)
{
	uint64_t left;

	tree_file("sys/fs/cgroup/a/b/memory.stat",
		  "anon 1048576\nfile 104857600\nshmem 73400320\n"
		  "inactive_file 20971520\nactive_file 10485760\n");
	EQ(limit(&left), 500 * MIB);
	EQ(left, 330 * MIB);
	tree_file("sys/fs/cgroup/a/b/memory.current", "734003200\n");
	EQ(limit(&left), 500 * MIB);
	EQ(left, 0);
	tree_file("sys/fs/cgroup/a/b/memory.current", "209715200\n");
}

static void a_group_above_counts_too(void)
{
	uint64_t left;

	tree_file("sys/fs/cgroup/a/memory.max", "419430400\n");
	tree_file("sys/fs/cgroup/a/memory.current", "367001600\n");
	EQ(limit(&left), 400 * MIB);
	EQ(left, 50 * MIB);
}

/* "No limit" is a number there. */
static void the_older_hierarchy_has_other_names(void)
{
	uint64_t left;

	tree_file("proc/self/cgroup", "4:cpuset:/x\n3:memory:/c/d\n0::/a/b\n");
	tree_file("sys/fs/cgroup/memory/c/d/memory.limit_in_bytes",
		  "9223372036854771712\n");
	tree_file("sys/fs/cgroup/memory/c/memory.limit_in_bytes",
		  "9223372036854771712\n");
	EQ(limit(&left), UINT64_MAX);
	EQ(left, UINT64_MAX);
	tree_file("sys/fs/cgroup/memory/c/memory.limit_in_bytes",
		  "104857600\n");
	tree_file("sys/fs/cgroup/memory/c/memory.usage_in_bytes", "52428800\n");
	tree_file("sys/fs/cgroup/memory/c/memory.stat",
		  "inactive_file 1\ntotal_inactive_file 1048576\n"
		  "total_active_file 1048576\n");
	EQ(limit(&left), 100 * MIB);
	EQ(left, 52 * MIB);
}

/* The path is the machine's, the mount is the container's. */
static void a_container_sees_its_own_group(void)
{
	tree_file("proc/self/cgroup", "3:memory:/docker/0123\n");
	EQ(limit(NULL), UINT64_MAX);
	tree_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "73400320\n");
	EQ(limit(NULL), 70 * MIB);
}

TAP_CASE()
{
	if (!tree_begin())
		return tap_done();
	a_machine_without_groups_has_no_limit();
	the_unified_hierarchy_says_max_or_bytes();
	files_that_were_read_are_free();
	a_group_above_counts_too();
	the_older_hierarchy_has_other_names();
	a_container_sees_its_own_group();
	tree_end();
	return tap_done();
}

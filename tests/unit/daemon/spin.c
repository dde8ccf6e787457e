/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* spin: who may spin, on machines made of a few files. */

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/base/spin.h"
#include "tests/support/tap.h"

#define SECOND UINT64_C(1000000000)

static char root[] = "/tmp/gpumap-test-spin.XXXXXX";

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	file = fopen(full, "w");
	if (!file || fputs(text, file) < 0)
		abort();
	fclose(file);
}

static void make_directory(const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	if (mkdir(full, 0700) != 0)
		abort();
}

static uint32_t limit_now(uint32_t n_cpus)
{
	struct gm_spin spin;

	gm_spin_init(&spin, root, n_cpus);
	return gm_spin_limit(&spin, SECOND);
}

static void a_machine_without_groups_keeps_one_cpu_free(void)
{
	EQ(limit_now(8), 7);
	EQ(limit_now(1), 0);
	EQ(limit_now(0), 0);
}

static void make_groups(void)
{
	make_directory("/proc");
	make_directory("/proc/self");
	make_directory("/sys");
	make_directory("/sys/fs");
	make_directory("/sys/fs/cgroup");
	make_directory("/sys/fs/cgroup/a");
	make_directory("/sys/fs/cgroup/a/b");
	put("/proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
}

static void a_short_quota_forbids_spinning(void)
{
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	EQ(limit_now(8), 7);
	put("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
	EQ(limit_now(8), 0);
	put("/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
	EQ(limit_now(8), 7);
}

static void so_does_that_of_a_group_above(void)
{
	put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
	EQ(limit_now(8), 0);
	put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
	EQ(limit_now(8), 7);
}

static void throttling_forbids_it_for_a_while(void)
{
	struct gm_spin spin;

	put("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 1\nnr_throttled 5\n");
	gm_spin_init(&spin, root, 8);
	EQ(gm_spin_limit(&spin, 1 * SECOND), 7);
	put("/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 1\nnr_throttled 6\n");
	EQ(gm_spin_limit(&spin, 2 * SECOND), 0);
	EQ(gm_spin_limit(&spin, 3 * SECOND), 0);
	EQ(gm_spin_limit(&spin, 60 * SECOND), 7);
}

/* Before the unified hierarchy, and in the mixed one, each controller may
 * have a hierarchy of its own. */
static void make_old_groups(void)
{
	make_directory("/sys/fs/cgroup/cpu");
	make_directory("/sys/fs/cgroup/cpu/c");
	make_directory("/sys/fs/cgroup/cpu/c/d");
	put("/proc/self/cgroup", "4:cpuset:/x\n3:cpuacct,cpu:/c/d\n"
				 "1:name=systemd:/x\n0::/a/b\n");
	put("/sys/fs/cgroup/cpu/c/d/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "50000\n");
}

static void an_old_quota_counts_as_well(void)
{
	put("/sys/fs/cgroup/cpu/c/d/cpu.cfs_quota_us", "-1\n");
	EQ(limit_now(8), 7);
	put("/sys/fs/cgroup/cpu/c/d/cpu.cfs_quota_us", "199999\n");
	EQ(limit_now(8), 0);
	put("/sys/fs/cgroup/cpu/c/d/cpu.cfs_quota_us", "200000\n");
	EQ(limit_now(8), 7);
	put("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "90000\n");
	EQ(limit_now(8), 0);
	put("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
	EQ(limit_now(8), 7);
}

static void old_throttling_counts_as_well(void)
{
	struct gm_spin spin;

	put("/sys/fs/cgroup/cpu/c/d/cpu.stat", "nr_periods 9\n"
					       "nr_throttled 1\n");
	gm_spin_init(&spin, root, 8);
	EQ(gm_spin_limit(&spin, 1 * SECOND), 7);
	put("/sys/fs/cgroup/cpu/c/d/cpu.stat", "nr_periods 10\n"
					       "nr_throttled 2\n");
	EQ(gm_spin_limit(&spin, 2 * SECOND), 0);
}

/* The path is the machine's, the mount is the container's. */
static void a_container_sees_its_own_group_only(void)
{
	struct gm_spin spin;

	put("/proc/self/cgroup", "3:cpu:/docker/0123\n");
	EQ(limit_now(8), 7);
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	EQ(limit_now(8), 0);
	put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	EQ(limit_now(8), 7);
	put("/sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 1\n");
	gm_spin_init(&spin, root, 8);
	put("/sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 2\n");
	EQ(gm_spin_limit(&spin, SECOND), 0);
	put("/proc/self/cgroup", "3:cpuset:/x\n2:cpuacct:/x\n0::/a/b\n");
	EQ(limit_now(8), 7); /* none of these is the one of CPU time */
}

static void clean_up(void)
{
	char command[sizeof(root) + 16];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	EQ(system(command), 0);
}

TAP_CASE()
{
	if (!OK(mkdtemp(root) != NULL))
		return tap_done();
	a_machine_without_groups_keeps_one_cpu_free();
	make_groups();
	a_short_quota_forbids_spinning();
	so_does_that_of_a_group_above();
	throttling_forbids_it_for_a_while();
	make_old_groups();
	an_old_quota_counts_as_well();
	old_throttling_counts_as_well();
	a_container_sees_its_own_group_only();
	clean_up();
	return tap_done();
}

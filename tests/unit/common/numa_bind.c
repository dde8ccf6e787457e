/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* pin: machines of paper with odd nodes, and binding on this one. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <numaif.h>
#include <sched.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/idset.h"
#include "agent/common/meminfo.h"
#include "agent/common/numa_bind.h"
#include "tests/support/page_nodes.h"
#include "tests/support/tap.h"

#define NODES "/sys/devices/system/node"
#define CPUS  "/sys/devices/system/cpu"

/* ---- machines of paper ------------------------------------------------- */

static char root[] = "/tmp/gpumap-test-pin.XXXXXX";

static void put(const char *path, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A file of the machine, with its folders. */
static void put(const char *path, const char *format, ...)
{
	char full[PATH_MAX];
	va_list args;
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0700);
		*p = '/';
	}
	file = fopen(full, "we");
	if (!file) {
		perror(full);
		exit(1);
	}
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	fclose(file);
}

static void put_node(int id, const char *cpus, uint64_t total_kb,
		     uint64_t free_kb)
{
	char path[128];

	snprintf(path, sizeof(path), NODES "/node%d/cpulist", id);
	put(path, "%s\n", cpus);
	snprintf(path, sizeof(path), NODES "/node%d/meminfo", id);
	put(path,
	    "Node %d MemTotal:       %" PRIu64 " kB\n"
	    "Node %d MemFree:        %" PRIu64 " kB\n"
	    "Node %d Active(anon):   9999 kB\n"
	    "Node %d Active(file):   3000 kB\n"
	    "Node %d Inactive(file): 1000 kB\n"
	    "Node %d KReclaimable:   600 kB\n"
	    "Node %d SReclaimable:   500 kB\n",
	    id, total_kb, id, free_kb, id, id, id, id, id);
}

static int remove_one(const char *path, const struct stat *st, int kind,
		      struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static void clear_machine(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	mkdir(root, 0700);
}

/* Nodes 0, 2 and 5 are there; 2 is memory alone, 5 CPUs alone, 7 both. */
static void make_odd_machine(void)
{
	clear_machine();
	put(NODES "/online", "0,2,5,7\n");
	put(NODES "/has_memory", "0,2,7\n");
	put_node(0, "0-3,8-11", 1000000, 500000);
	put_node(2, "", 2000000, 2000000);
	put_node(5, "4-5", 0, 0);
	put_node(7, "6-7,12", 3000000, 1500);
	put("/proc/meminfo", "MemTotal: 1 kB\n");
	put("/proc/zoneinfo", "Node 0, zone   Normal\n"
			      "  pages free     1\n"
			      "        min      5\n"
			      "        low      10\n"
			      "        high     20\n"
			      "        managed  100000\n"
			      "        protection: (0, 0, 30)\n"
			      "  pagesets\n"
			      "              high:  7777\n"
			      "Node 0, zone  Movable\n"
			      "        low      2\n"
			      "        high     50\n"
			      "        managed  40\n"
			      "        protection: (0, 0, 0)\n"
			      "Node 2, zone   Normal\n"
			      "        low      9999\n"
			      "        high     9999\n"
			      "        managed  99999\n"
			      "        protection: (0, 0, 0)\n");
}

static void odd_nodes_are_told_apart(void)
{
	static struct gm_node nodes[4];
	struct gm_idset cpus;
	char text[64];

	make_odd_machine();
	EQ(gm_numa_bind_nodes(root, NULL, nodes, 3), -ENOBUFS);
	if (!EQ(gm_numa_bind_nodes(root, NULL, nodes, 4), 4))
		return;
	EQ(nodes[0].id, 0);
	EQ(nodes[1].id, 2);
	EQ(nodes[2].id, 5);
	EQ(nodes[3].id, 7);
	OK(gm_node_hosts(&nodes[0]));
	OK(!gm_node_hosts(&nodes[1]));
	OK(!gm_node_hosts(&nodes[2]));
	OK(gm_node_hosts(&nodes[3]));
	EQ(nodes[3].mem_bytes, UINT64_C(3000000) << 10);
	gm_idset_format(&nodes[0].cpus, text, sizeof(text));
	STR(text, "0-3,8-11");

	EQ(gm_numa_bind_node_cpus(root, 7, &cpus), 3);
	EQ(gm_numa_bind_node_cpus(root, 2, &cpus), 0);
	EQ(gm_numa_bind_node_cpus(root, 1, &cpus), -ENODEV);
	EQ(gm_numa_bind_node_of_cpu(root, 12), 7);
	EQ(gm_numa_bind_node_of_cpu(root, 4), 5);
	EQ(gm_numa_bind_node_of_cpu(root, 13), -ENODEV);
	EQ(gm_numa_bind_node_of_cpu(root, -1), -ENODEV);
}

static void what_is_not_allowed_is_left_out(void)
{
	static struct gm_node nodes[4];
	struct gm_numa_allowed allow;

	make_odd_machine();
	put("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\n"
				 "Cpus_allowed_list:\t2-3,6\n"
				 "Mems_allowed_list:\t0,2\n");
	gm_numa_bind_allowed(root, &allow);
	EQ(gm_idset_count(&allow.cpus), 3);
	EQ(gm_idset_count(&allow.mems), 2);
	if (!EQ(gm_numa_bind_nodes(root, &allow, nodes, 4), 4))
		return;
	EQ(gm_idset_count(&nodes[0].cpus), 2);
	OK(gm_node_hosts(&nodes[0]));
	EQ(gm_idset_count(&nodes[3].cpus), 1);
	OK(!gm_node_hosts(&nodes[3])); /* its memory is not ours */

	put("/proc/self/status", "Name:\tx\n");
	gm_numa_bind_allowed(root, &allow);
	OK(gm_idset_has(&allow.cpus, 8191) && gm_idset_has(&allow.mems, 7));
}

static void a_kernel_without_numa_is_one_node(void)
{
	struct gm_node node;
	struct gm_idset cpus;

	clear_machine();
	put(CPUS "/online", "0-5\n");
	put("/proc/meminfo", "MemTotal:  4096 kB\nMemFree:  1024 kB\n"
			     "MemAvailable:  2048 kB\n");
	EQ(gm_numa_bind_nodes(root, NULL, &node, 1), 1);
	EQ(node.id, 0);
	EQ(gm_idset_count(&node.cpus), 6);
	EQ(node.mem_bytes, 4096 << 10);
	OK(gm_node_hosts(&node));
	EQ(gm_numa_bind_node_cpus(root, 1, &cpus), -ENODEV);
	EQ(gm_numa_bind_node_of_cpu(root, 5), 0);
	EQ(gm_numa_bind_node_of_cpu(root, 6), -ENODEV);
}

static void a_broken_list_is_an_error(void)
{
	static struct gm_node nodes[4];

	make_odd_machine();
	put(NODES "/node5/cpulist", "4-\n");
	EQ(gm_numa_bind_nodes(root, NULL, nodes, 4), -EINVAL);
	put(NODES "/online", "zero\n");
	EQ(gm_numa_bind_nodes(root, NULL, nodes, 4), -EINVAL);
}

/* ---- memory of nodes --------------------------------------------------- */

static void free_memory_is_what_could_be_had(void)
{
	uint64_t page_kb = (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
	uint64_t total = 0, left = 0, reserve, low;
	struct gm_meminfo info;

	make_odd_machine();
	EQ(gm_meminfo_open(root, 1, &info), -ENODEV);
	EQ(gm_meminfo_open(root, 0, &info), 0);
	EQ(gm_meminfo_read(&info, &total, &left), 0);
	EQ(total, UINT64_C(1000000) << 10);
	/* 20 + 30 of the first zone, of the second no more than it has. */
	reserve = (50 + 40) * page_kb;
	low = 12 * page_kb;
	EQ(left >> 10, 500000 - reserve + (4000 - low) + (600 - low));

	/* Where "low" is large, half of what could be given back is kept. */
	EQ(gm_meminfo_open(root, 2, &info), 0);
	EQ(gm_meminfo_read(&info, &total, &left), 0);
	EQ(left >> 10, 2000000 - 9999 * page_kb + 2000 + 300);

	/* No watermarks known: nothing is kept back. */
	EQ(gm_meminfo_open(root, 7, &info), 0);
	EQ(gm_meminfo_read(&info, &total, &left), 0);
	EQ(left >> 10, 1500 + 4000 + 600);

	EQ(gm_meminfo_open(root, 5, &info), 0);
	EQ(gm_meminfo_read(&info, &total, &left), 0);
	EQ(total, 0);
	EQ(left, 0);
}

static void one_node_with_memory_has_the_machines_figures(void)
{
	uint64_t total = 0, left = 0;
	struct gm_meminfo info;

	make_odd_machine();
	put(NODES "/has_memory", "0\n");
	put("/proc/meminfo", "MemTotal:  7000 kB\nMemFree:  10 kB\n"
			     "MemAvailable:  6000 kB\n");
	EQ(gm_meminfo_open(root, 0, &info), 0);
	EQ(gm_meminfo_read(&info, &total, &left), 0);
	EQ(total, 7000 << 10);
	EQ(left, 6000 << 10);
	put("/proc/meminfo", "Cached:  7000 kB\n");
	EQ(gm_meminfo_read(&info, &total, &left), -EPROTO);
	EQ(total, 7000 << 10);
}

/* ---- shares ------------------------------------------------------------ */

/* Hardware threads numbered as Intel does: thread 1 of core c is c + 4. */
static void make_threads(int cores)
{
	clear_machine();
	for (int cpu = 0; cpu < 2 * cores; cpu++) {
		char path[128];

		snprintf(path, sizeof(path),
			 CPUS "/cpu%d/topology/thread_siblings_list", cpu);
		put(path, "%d,%d\n", cpu % cores, cpu % cores + cores);
	}
}

static void share_is(const char *cpus, uint32_t parts, uint32_t part,
		     const char *want)
{
	struct gm_idset set, share;
	char text[64] = "";

	gm_idset_parse(cpus, &set);
	OK(gm_numa_bind_split(root, &set, parts, part, &share) > 0);
	gm_idset_format(&share, text, sizeof(text));
	STR(text, want);
}

static void threads_of_a_core_stay_together(void)
{
	struct gm_idset set, share;

	make_threads(4);
	share_is("0-7", 1, 0, "0-7");
	share_is("0-7", 2, 0, "0-1,4-5");
	share_is("0-7", 2, 1, "2-3,6-7");
	share_is("0-7", 3, 0, "0,4");
	share_is("0-7", 3, 1, "1,5");
	share_is("0-7", 3, 2, "2-3,6-7");
	share_is("0-7", 8, 4, "2");
	share_is("0-7", 8, 5, "6");
	share_is("4-5", 2, 1, "5");
	share_is("1,5", 3, 0, "1");
	share_is("1,5", 3, 2, "5");
	clear_machine(); /* nothing known: every CPU is a core */
	share_is("0-3", 2, 1, "2-3");

	gm_idset_parse("0-3", &set);
	EQ(gm_numa_bind_split(root, &set, 0, 0, &share), -EINVAL);
	EQ(gm_numa_bind_split(root, &set, 2, 2, &share), -EINVAL);
	gm_idset_parse("", &set);
	EQ(gm_numa_bind_split(root, &set, 1, 0, &share), -EINVAL);
}

/* Every CPU is in one share, and shares differ by one core at most. */
static void shares_are_a_partition(void)
{
	struct gm_idset all;
	bool pass = true;

	make_threads(7);
	gm_idset_parse("0-13", &all);
	for (uint32_t parts = 1; parts <= 14; parts++) {
		int sum = 0, least = INT_MAX, most = 0;
		struct gm_idset seen = { 0 };

		for (uint32_t part = 0; part < parts; part++) {
			struct gm_idset share;
			int n = gm_numa_bind_split(root, &all, parts, part,
						   &share);

			sum += n;
			least = n < least ? n : least;
			most = n > most ? n : most;
			for (int c = gm_idset_next(&share, -1); c >= 0;
			     c = gm_idset_next(&share, c))
				gm_idset_add(&seen, c);
		}
		pass = pass && sum == 14 && gm_idset_count(&seen) == 14 &&
		       most - least <= 2;
	}
	OK(pass);
}

/* ---- this machine ------------------------------------------------------ */

/* In a child, since a thread cannot be unbound: 0, or the line that failed. */
static int bound_child(int node, const struct gm_idset *cpus)
{
	struct gm_numa_bound pinned = { 1, 1 };
	struct gm_idset now = { 0 };
	int rc = gm_numa_bind_self(NULL, node, cpus, &pinned);

	if (pinned.cpus != 0)
		return __LINE__;
	if (sched_getaffinity(0, sizeof(now), (cpu_set_t *)&now) < 0)
		return __LINE__;
	if (memcmp(&now, cpus, sizeof(now)) != 0)
		return __LINE__;
	if (rc != pinned.memory)
		return __LINE__;
	return 0;
}

static int wait_for(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void a_process_goes_where_it_is_put(void)
{
	static struct gm_node nodes[GM_PIN_NODES_MAX];
	struct gm_numa_allowed allow;
	struct gm_idset one = { 0 };
	int n, i = 0;
	pid_t pid;

	gm_numa_bind_allowed(NULL, &allow);
	n = gm_numa_bind_nodes(NULL, &allow, nodes, GM_PIN_NODES_MAX);
	if (!OK(n > 0))
		return;
	while (i < n && !gm_node_hosts(&nodes[i]))
		i++;
	if (!OK(i < n))
		return;
	gm_idset_add(&one, gm_idset_next(&nodes[i].cpus, -1));
	EQ(gm_numa_bind_node_of_cpu(NULL, gm_idset_next(&one, -1)),
	   nodes[i].id);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(bound_child(nodes[i].id, &one) != 0);
	EQ(wait_for(pid), 0);
}

/* As Docker's default profile does to containers without SYS_NICE. */
static int confined_child(const struct gm_idset *cpus)
{
	static const char *const calls[] = { "get_mempolicy", "set_mempolicy",
					     "mbind" };
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	struct gm_numa_bound pinned = { 1, 1 };
	int rc = filter ? 0 : -ENOMEM;

	for (size_t i = 0; i < 3 && rc == 0; i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				      seccomp_syscall_resolve_name(calls[i]),
				      0);
	if (rc < 0 || seccomp_load(filter) < 0)
		return 77;
	if (gm_numa_bind_self(NULL, 0, cpus, &pinned) != -EPERM ||
	    pinned.cpus != 0 || pinned.memory != -EPERM)
		return 1;
	if (gm_numa_bind_range(&pinned, 1, 0, GM_NUMA_BIND_PREFER) != -EPERM)
		return 2;
	return 0;
}

static void a_container_may_refuse_memory_policy(void)
{
	struct gm_idset one = { 0 };
	pid_t pid;
	int rc;

	gm_idset_add(&one, sched_getcpu());
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(confined_child(&one));
	rc = wait_for(pid);
	if (rc == 77)
		SKIP(1, "no seccomp filter can be loaded here");
	else
		EQ(rc, 0);
}

static void an_impossible_place_is_refused(void)
{
	struct gm_numa_bound pinned = { 0 };
	struct gm_idset none = { 0 };

	EQ(gm_numa_bind_self(NULL, -1, NULL, &pinned), 0);
	EQ(gm_numa_bind_self(NULL, -1, &none, &pinned), -EINVAL);
	EQ(pinned.cpus, -EINVAL);
	EQ(gm_numa_bind_self(NULL, GM_IDSET_MAX, NULL, &pinned), -ENODEV);
	OK(pinned.memory < 0);
	OK(strstr(gm_numa_bind_why(-EPERM), "SYS_NICE"));
}

/* In a child: the policy after preferring @nodes, or a negative errno. */
static int policy_of(const char *at, const char *nodes)
{
	struct gm_idset set = { 0 };
	pid_t pid = fork();
	int status, mode = -1, rc;

	if (pid == 0) {
		gm_idset_parse(nodes, &set);
		rc = gm_numa_bind_prefer(at, &set);
		if (rc == 0 && get_mempolicy(&mode, NULL, 0, NULL, 0) < 0)
			rc = -errno;
		_exit(rc < 0 ? 128 - rc : mode);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -ECHILD;
	return WEXITSTATUS(status) < 128 ? WEXITSTATUS(status)
					 : 128 - WEXITSTATUS(status);
}

/* The machine of paper has two nodes, and this one has node 0 at least. */
static void nodes_are_preferred(void)
{
	int mode, many;

	clear_machine();
	put(NODES "/online", "0-1\n");
	mode = policy_of(root, "0");
	if (mode == -EPERM || mode == -ENOSYS) {
		SKIP(5, gm_numa_bind_why(mode));
		return;
	}
	EQ(mode, MPOL_PREFERRED);
	many = policy_of(root, "0-1");
	OK(many == 5 /* PREFERRED_MANY */ || many == MPOL_PREFERRED);
	EQ(policy_of(root, ""), MPOL_DEFAULT);
	put(NODES "/online", "0\n");
	EQ(policy_of(root, "0"), MPOL_DEFAULT);
	EQ(policy_of(root, "0-1"), MPOL_DEFAULT);
}

static void a_mapping_is_bound_and_counted(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 600 * page;
	struct page_nodes_count pages = { 7, 7, 7 };
	int fd = memfd_create("gpumap-test-pin", MFD_CLOEXEC);
	static struct gm_node nodes[GM_PIN_NODES_MAX];
	int n = gm_numa_bind_nodes(NULL, NULL, nodes, GM_PIN_NODES_MAX);
	int node = -1, rc;
	char *map;

	for (int i = 0; i < n && node < 0; i++)
		node = nodes[i].mem_bytes ? nodes[i].id : -1;
	if (!OK(node >= 0) || !OK(fd >= 0) ||
	    !EQ(ftruncate(fd, (off_t)bytes), 0))
		return;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (!OK(map != MAP_FAILED))
		return;
	rc = gm_numa_bind_range(map, bytes, node, GM_NUMA_BIND_STRICT);
	if (rc == -EPERM || rc == -ENOSYS) {
		SKIP(9, gm_numa_bind_why(rc));
		munmap(map, bytes);
		return;
	}
	EQ(rc, 0);
	EQ(gm_numa_bind_range(map, bytes, node, GM_NUMA_BIND_PREFER), 0);
	EQ(gm_numa_bind_range(map, bytes, -1, GM_NUMA_BIND_PREFER), -EINVAL);
	EQ(gm_numa_bind_range(map, bytes, GM_IDSET_MAX, GM_NUMA_BIND_PREFER),
	   -EINVAL);
	for (size_t i = 0; i < 513; i++)
		map[i * page] = 1;
	EQ(page_nodes(map, bytes, node, &pages), 0);
	EQ(pages.here, 513);
	EQ(pages.elsewhere, 0);
	EQ(pages.absent, 600 - 513);
	page_nodes(map, bytes, node + 1, &pages);
	EQ(pages.elsewhere, 513);
	munmap(map, bytes);
}

TAP_CASE()
{
	if (!mkdtemp(root)) {
		perror(root);
		return 1;
	}
	odd_nodes_are_told_apart();
	what_is_not_allowed_is_left_out();
	a_kernel_without_numa_is_one_node();
	a_broken_list_is_an_error();
	free_memory_is_what_could_be_had();
	one_node_with_memory_has_the_machines_figures();
	threads_of_a_core_stay_together();
	shares_are_a_partition();
	a_process_goes_where_it_is_put();
	a_container_may_refuse_memory_policy();
	an_impossible_place_is_refused();
	nodes_are_preferred();
	a_mapping_is_bound_and_counted();
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return tap_done();
}

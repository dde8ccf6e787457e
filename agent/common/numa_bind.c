/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/numa_bind.h"

#include <errno.h>
#include <limits.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/meminfo.h"
#include "agent/common/read_file.h"

#define NODE_DIR "/sys/devices/system/node"
#define CPU_DIR  "/sys/devices/system/cpu"

/* In Linux since 5.15. */
#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5
#endif

static void (*on_warn)(const char *text);

void gm_numa_bind_set_warn(void (*warn)(const char *text))
{
	on_warn = warn;
}

/*
 * libnuma prints to stderr by itself, already from its constructor, unless a
 * program has functions of these names; its own are weak.
 */
__attribute__((format(printf, 2, 3))) void numa_warn(int num, char *format, ...)
{
	char text[256];
	va_list args;

	(void)num;
	if (!on_warn)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	on_warn(text);
}

void numa_error(char *where)
{
	if (on_warn)
		on_warn(where);
}

/* get_mempolicy first: numa_available() cannot tell EPERM from no NUMA. */
static int numa_refusal(void)
{
	int mode;

	if (get_mempolicy(&mode, NULL, 0, NULL, 0) < 0)
		return -errno;
	return numa_available() < 0 ? -ENOSYS : 0;
}

static int list_at(const char *root, struct gm_idset *ret_set, const char *dir,
		   int id, const char *file)
{
	char path[PATH_MAX];
	int rc = gm_read_file_path(path, sizeof(path), root, "%s%d/%s", dir, id,
				   file);

	return rc < 0 ? rc : gm_read_file_list(path, ret_set);
}

static int list_of(const char *root, struct gm_idset *ret_set, const char *file)
{
	char path[PATH_MAX];
	int rc = gm_read_file_path(path, sizeof(path), root, "%s", file);

	return rc < 0 ? rc : gm_read_file_list(path, ret_set);
}

/* A kernel without NUMA has no node directory: node 0 is the machine. */
static int online_nodes(const char *root, struct gm_idset *ret_nodes)
{
	struct gm_idset nodes = { 0 };
	int rc = list_of(root, &nodes, NODE_DIR "/online");

	if (rc == -ENOENT || rc == 0) {
		gm_idset_add(&nodes, 0);
		rc = 1;
	}
	if (rc > 0)
		*ret_nodes = nodes;
	return rc;
}

int gm_numa_bind_node_cpus(const char *root, int node,
			   struct gm_idset *ret_cpus)
{
	int rc = list_at(root, ret_cpus, NODE_DIR "/node", node, "cpulist");

	if (rc != -ENOENT)
		return rc;
	if (node != 0 || list_of(root, ret_cpus, NODE_DIR "/online") != -ENOENT)
		return -ENODEV;
	return list_of(root, ret_cpus, CPU_DIR "/online");
}

/* "Cpus_allowed_list:" and "Mems_allowed_list:" of /proc/self/status. */
static void allowed_list(char *status, const char *name,
			 struct gm_idset *ret_set)
{
	char *at = strstr(status, name);
	char *line = at ? at + strlen(name) : NULL;

	if (line && gm_idset_parse(strsep(&line, "\n"), ret_set) > 0)
		return;
	memset(ret_set, 0xff, sizeof(*ret_set));
}

void gm_numa_bind_allowed(const char *root, struct gm_numa_allowed *ret_allow)
{
	char path[PATH_MAX], status[GM_SYSFILE_LIST_MAX], copy[sizeof(status)];

	status[0] = '\0';
	if (!gm_read_file_path(path, sizeof(path), root, "/proc/self/status") &&
	    gm_read_file(path, status, sizeof(status)) < 0)
		status[0] = '\0';
	memcpy(copy, status, sizeof(copy));
	allowed_list(status, "Cpus_allowed_list:", &ret_allow->cpus);
	allowed_list(copy, "Mems_allowed_list:", &ret_allow->mems);
}

static int read_node(const char *root, int id,
		     const struct gm_numa_allowed *allow,
		     struct gm_node *ret_node)
{
	struct gm_meminfo info;
	uint64_t total, free_bytes;
	int rc = gm_numa_bind_node_cpus(root, id, &ret_node->cpus);

	if (rc < 0)
		return rc;
	ret_node->id = id;
	ret_node->mem_bytes = 0;
	if (allow)
		gm_idset_and(&ret_node->cpus, &allow->cpus);
	if (allow && !gm_idset_has(&allow->mems, id))
		return 0;
	rc = gm_meminfo_open(root, id, &info);
	if (rc == 0)
		rc = gm_meminfo_read(&info, &total, &free_bytes);
	if (rc == 0)
		ret_node->mem_bytes = total;
	return rc;
}

int gm_numa_bind_nodes(const char *root, const struct gm_numa_allowed *allow,
		       struct gm_node *ret_nodes, size_t max)
{
	struct gm_idset online;
	int rc = online_nodes(root, &online);
	int n = 0;

	if (rc < 0)
		return rc;
	if ((size_t)rc > max)
		return -ENOBUFS;
	for (int id = gm_idset_next(&online, -1); id >= 0;
	     id = gm_idset_next(&online, id)) {
		rc = read_node(root, id, allow, &ret_nodes[n]);
		if (rc < 0)
			return rc;
		n++;
	}
	return n;
}

int gm_numa_bind_node_of_cpu(const char *root, int cpu)
{
	struct gm_idset online, cpus;
	int rc = online_nodes(root, &online);

	if (rc < 0)
		return rc;
	for (int id = gm_idset_next(&online, -1); id >= 0;
	     id = gm_idset_next(&online, id)) {
		rc = gm_numa_bind_node_cpus(root, id, &cpus);
		if (rc < 0)
			return rc;
		if (gm_idset_has(&cpus, cpu))
			return id;
	}
	return -ENODEV;
}

struct thread {
	int core; /* the lowest CPU of its core */
	int cpu;
};

static int by_core(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return x->core != y->core ? x->core - y->core : x->cpu - y->cpu;
}

/* A CPU whose siblings cannot be read is a core of its own. */
static int core_of(const char *root, int cpu)
{
	struct gm_idset siblings;

	if (list_at(root, &siblings, CPU_DIR "/cpu", cpu,
		    "topology/thread_siblings_list") <= 0)
		return cpu;
	return gm_idset_next(&siblings, -1);
}

/* Deals @n items to @parts: where part @part begins. */
static uint64_t part_start(uint64_t n, uint32_t parts, uint32_t part)
{
	return n * part / parts;
}

/* @threads is in order of cores; number the cores 0, 1, 2... Returns how
 * many. */
static uint32_t number_cores(struct thread *threads, int n)
{
	uint32_t cores = 0;
	int last = -1;

	for (int i = 0; i < n; i++) {
		cores += threads[i].core != last;
		last = threads[i].core;
		threads[i].core = (int)cores - 1;
	}
	return cores;
}

int gm_numa_bind_split(const char *root, const struct gm_idset *cpus,
		       uint32_t parts, uint32_t part,
		       struct gm_idset *ret_share)
{
	int n = gm_idset_count(cpus), i = 0;
	struct gm_idset share = { 0 };
	struct thread *threads;
	uint32_t cores;

	if (n == 0 || part >= parts)
		return -EINVAL;
	threads = calloc((size_t)n, sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	for (int cpu = gm_idset_next(cpus, -1); cpu >= 0;
	     cpu = gm_idset_next(cpus, cpu))
		threads[i++] = (struct thread){ core_of(root, cpu), cpu };
	qsort(threads, (size_t)n, sizeof(*threads), by_core);
	cores = number_cores(threads, n);

	for (i = 0; i < n; i++) {
		bool whole = parts <= cores;
		uint64_t unit = whole ? (uint64_t)threads[i].core : (uint64_t)i;
		uint64_t units = whole ? cores : (uint64_t)n;
		uint64_t first = part_start(units, parts, part);
		uint64_t end = part_start(units, parts, part + 1);

		if (unit == first || (unit > first && unit < end))
			gm_idset_add(&share, threads[i].cpu);
	}
	free(threads);
	*ret_share = share;
	return gm_idset_count(&share);
}

static int bind_cpus(const char *root, int node, const struct gm_idset *cpus)
{
	struct gm_idset set;

	if (!cpus) {
		int rc = gm_numa_bind_node_cpus(root, node, &set);

		if (rc < 0)
			return rc;
		cpus = &set;
	}
	if (sched_setaffinity(0, sizeof(*cpus), (const cpu_set_t *)cpus) < 0)
		return -errno;
	return 0;
}

/* maxnode counts one more bit than the kernel reads. */
static int bind_memory(int node)
{
	struct gm_idset nodes = { 0 };
	int rc = numa_refusal();

	if (rc < 0)
		return rc;
	gm_idset_add(&nodes, node);
	if (!gm_idset_has(&nodes, node))
		return -EINVAL; /* the empty set would mean "anywhere" */
	if (set_mempolicy(MPOL_PREFERRED, nodes.word, GM_IDSET_MAX + 1) < 0)
		return -errno;
	return 0;
}

int gm_numa_bind_prefer(const char *root, const struct gm_idset *nodes)
{
	int n = gm_idset_count(nodes), rc;
	struct gm_idset online;

	if (n == 0 || online_nodes(root, &online) < 2)
		return 0;
	rc = numa_refusal();
	if (rc < 0)
		return rc;
	if (n > 1 && set_mempolicy(MPOL_PREFERRED_MANY, nodes->word,
				   GM_IDSET_MAX + 1) == 0)
		return 0;
	return bind_memory(gm_idset_next(nodes, -1));
}

/* Pages that were allocated before the process could choose: the program's
 * loader ran on its parent's node.  A page that cannot move serves where it
 * is. */
static void bring_memory(const char *root, int node)
{
	struct gm_idset from, to = { 0 };

	if (online_nodes(root, &from) < 0)
		return;
	gm_idset_add(&to, node);
	migrate_pages(0, GM_IDSET_MAX + 1, from.word, to.word);
}

int gm_numa_bind_self(const char *root, int node, const struct gm_idset *cpus,
		      struct gm_numa_bound *ret_pinned)
{
	struct gm_numa_bound done = { 0 };

	if (node >= 0 || cpus)
		done.cpus = bind_cpus(root, node, cpus);
	if (node >= 0)
		done.memory = bind_memory(node);
	if (node >= 0 && done.memory == 0)
		bring_memory(root, node);
	if (ret_pinned)
		*ret_pinned = done;
	return done.cpus ? done.cpus : done.memory;
}

const char *gm_numa_bind_why(int err)
{
	switch (err) {
	case 0:
		return "bound";
	case -EPERM:
		return "refused by the container's seccomp profile; give it "
		       "CAP_SYS_NICE (docker run --cap-add SYS_NICE)";
	case -ENOSYS:
		return "this kernel has no NUMA; nothing to bind";
	case -EINVAL:
		return "outside this process's cpuset; see Cpus_allowed_list "
		       "and Mems_allowed_list in /proc/self/status";
	case -ENODEV:
		return "no such node online; see "
		       "/sys/devices/system/node/online";
	default:
		return strerror(-err);
	}
}

int gm_numa_bind_range(void *addr, size_t bytes, int node,
		       enum gm_numa_bind_mode mode)
{
	struct gm_idset nodes = { 0 };
	int rc = numa_refusal();

	if (rc < 0)
		return rc;
	if (node < 0 || node >= GM_IDSET_MAX)
		return -EINVAL;
	gm_idset_add(&nodes, node);
	if (mbind(addr, bytes,
		  mode == GM_NUMA_BIND_STRICT ? MPOL_BIND : MPOL_PREFERRED,
		  nodes.word, GM_IDSET_MAX + 1, 0) < 0)
		return -errno;
	return 0;
}

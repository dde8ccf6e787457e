/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * numa_bind - which CPUs and which memory: NUMA nodes, and how to stay on one.
 *
 * Facts come from sysfs, binding goes through libnuma's system calls.  A
 * kernel without NUMA is a machine with the one node 0, which has every CPU
 * and all memory.  Docker's default seccomp profile refuses every memory
 * policy call to containers without SYS_NICE: that costs placement, not
 * service, so it is reported as a warning and never fails a start.
 *
 * @root is put before /sys and /proc in every path, for tests with a machine
 * of their own; NULL is the machine that we run on.
 *
 * Order: a daemon that pins itself asks gm_numa_bind_allowed() first, because
 * afterwards it is left with its own node, and its children inherit that.
 * A process pins itself before it allocates and before it starts a thread.
 */
#ifndef GM_COMMON_NUMA_BIND_H
#define GM_COMMON_NUMA_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/common/idset.h"

#define GM_PIN_NODES_MAX 256 /* rows of the map: more nodes cannot be shown */

struct gm_node {
	int id;               /* as in /sys/devices/system/node/node<id> */
	struct gm_idset cpus; /* online, and allowed to us */
	uint64_t mem_bytes;   /* 0 for a node without memory that we may use */
};

/* The CPUs and memory nodes that this process may use: its affinity and its
 * cpuset. */
struct gm_numa_allowed {
	struct gm_idset cpus;
	struct gm_idset mems;
};

/* The result of the binding: 0, or the negative errno of the step. */
struct gm_numa_bound {
	int cpus;
	int memory;
};

/* libnuma's own complaints go to @warn; until it is set they are dropped. */
void gm_numa_bind_set_warn(void (*warn)(const char *text));

/* Where the kernel tells nothing, everything is allowed. */
void gm_numa_bind_allowed(const char *root, struct gm_numa_allowed *ret_allow);

/*
 * gm_numa_bind_nodes - the online nodes, in order of their ids
 *
 * allow	leave out CPUs and memory that are not in here; NULL for all
 * max		room in ret_nodes
 *
 * Returns	how many nodes there are, at most @max; at least 1
 *		-ENOBUFS	there are more than @max
 *		-EINVAL		sysfs holds a list that is none
 *		and what open and read return
 */
int gm_numa_bind_nodes(const char *root, const struct gm_numa_allowed *allow,
		       struct gm_node *ret_nodes, size_t max);

/* A host row needs both: a GPU's or CXL memory node has no CPUs. */
static inline bool gm_node_hosts(const struct gm_node *node)
{
	return node->mem_bytes && gm_idset_count(&node->cpus);
}

/* Returns the CPUs' number, or as gm_numa_bind_nodes(); -ENODEV for no such
 * node. */
int gm_numa_bind_node_cpus(const char *root, int node,
			   struct gm_idset *ret_cpus);

/* Returns the node, or as gm_numa_bind_nodes(); -ENODEV for a CPU that is
 * offline. */
int gm_numa_bind_node_of_cpu(const char *root, int cpu);

/*
 * gm_numa_bind_split - one of @parts nearly equal shares of @cpus
 *
 * Hardware threads of one core stay together, and neighbouring cores, which
 * share caches, stay neighbours.  With more parts than cores the threads are
 * dealt out, and with more parts than threads parts share a CPU: slow, but a
 * small machine can still show many rows.
 *
 * Returns	how many CPUs the share has, at least 1
 *		-EINVAL		no CPUs, no parts, or @part not below @parts
 *		-ENOMEM
 */
int gm_numa_bind_split(const char *root, const struct gm_idset *cpus,
		       uint32_t parts, uint32_t part,
		       struct gm_idset *ret_share);

/*
 * gm_numa_bind_self - put this thread, and all that it starts later, on a node
 *
 * node		-1 for none: memory policy is left alone
 * cpus		NULL for all CPUs of the node
 *
 * Memory is preferred from the node, not bound to it: a full node means slow
 * memory, where a bound process would be killed.  Private pages that this
 * process has already are moved there, as far as they can be.
 *
 * Returns	0 when all was done as asked; else the first error, with
 *		ret_pinned (which may be NULL) saying which step it was.  The
 *		other step is done all the same.  -EPERM is a container that
 *		forbids it, -ENOSYS a kernel without NUMA, -EINVAL CPUs or a
 *		node outside our cpuset.
 */
int gm_numa_bind_self(const char *root, int node, const struct gm_idset *cpus,
		      struct gm_numa_bound *ret_pinned);

/*
 * gm_numa_bind_prefer - have this thread, and all that it starts or becomes,
 * take new memory from these nodes first
 *
 * nodes	none: nothing is done, as on a machine with one node.  Before
 *		Linux 5.15, the first of several
 *
 * Returns	0
 *		-EPERM, -EINVAL	from set_mempolicy, as gm_numa_bind_self()
 */
int gm_numa_bind_prefer(const char *root, const struct gm_idset *nodes);

/* One clause for a log line: what refused, and the remedy. */
const char *gm_numa_bind_why(int err);

enum gm_numa_bind_mode {
	GM_NUMA_BIND_PREFER, /* elsewhere when the node is full */
	GM_NUMA_BIND_STRICT, /* the node or SIGBUS/OOM: for who asked for it */
};

/*
 * gm_numa_bind_range - bind a mapping to a node before it is touched
 *
 * addr, bytes	page aligned.  For a shared mapping (a memfd, a tmpfs file) the
 *		kernel keeps the policy with the file, so it holds for
 *		every process that touches a page first.
 *
 * Returns	0
 *		-EPERM, -ENOSYS, -EINVAL, -EFAULT, -ENOMEM	from mbind
 */
int gm_numa_bind_range(void *addr, size_t bytes, int node,
		       enum gm_numa_bind_mode mode);

#endif

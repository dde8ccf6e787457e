/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cgroup - this process's control group, and the memory that it may have.
 *
 * A controller is in the unified hierarchy or has one of its own; both are
 * looked for below /sys/fs/cgroup.  In a container the path in
 * /proc/self/cgroup may be one that only the machine outside knows: what is
 * mounted then is the container's own group.
 *
 * @root is put before /proc and /sys, for tests with a machine of their own;
 * NULL is the machine that we run on.
 */
#ifndef GM_COMMON_CGROUP_H
#define GM_COMMON_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_cgroup {
	char path[512]; /* its directory, "" where there is none */
};

/* The group of the @controller "cpu" or "memory". */
void gm_cgroup_find(struct gm_cgroup *ret_group, const char *root,
		    const char *controller);

/* Read a file of the group as a string.  Returns false where there is none. */
bool gm_cgroup_read(const struct gm_cgroup *group, const char *name,
		    char *ret_text, size_t bytes);

/* Leave the group for the one that it is in.  Returns false at the mount. */
bool gm_cgroup_climb(struct gm_cgroup *group);

/* The number behind "@key " in a file of the group such as memory.stat; 0 where
 * the file or the key is missing. */
uint64_t gm_cgroup_stat(const struct gm_cgroup *group, const char *name,
			const char *key);

/*
 * gm_cgroup_memory - the memory that a group and those around it allow
 *
 * group	as gm_cgroup_find() found it for "memory"
 * ret_free	what of the limit could be had now: page cache that the kernel
 *		gives back when asked is free; may be NULL
 *
 * Returns	the lowest limit of memory.max, or memory.limit_in_bytes before
 *		the unified hierarchy; UINT64_MAX, also in *ret_free, where
 *		there is no limit
 *
 * Cost: two to four small files of each group on the way up.
 */
uint64_t gm_cgroup_memory(const struct gm_cgroup *group, uint64_t *ret_free);

#endif

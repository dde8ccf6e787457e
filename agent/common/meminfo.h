/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * meminfo - how much memory a NUMA node has, and how much of it could be had.
 *
 * "Free" is what the kernel calls MemAvailable: what a program could get
 * without swapping.  MemFree would be wrong both ways: a node that has read a
 * checkpoint is full of page cache which goes away when asked, and the last
 * of its free pages are kept back for the kernel.
 *
 * The kernel gives MemAvailable for the whole machine only.  With one node
 * that has memory, its figure is used as it is.  With more, the same sum is
 * done per node:
 *
 *	  MemFree - what the node's zones keep back
 *	+ page cache of files      less the smaller of its half and "low"
 *	+ reclaimable kernel memory  likewise
 *
 * where "low" and what is kept back are the watermarks in /proc/zoneinfo.
 * Shared memory is not file cache here, free huge pages are not free, and
 * limits of a memory cgroup are not looked at.
 */
#ifndef GM_MEMINFO_H
#define GM_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>

/* One node's source of figures.  Watermarks move only when a person does. */
struct gm_meminfo {
	const char *root; /* as given to open */
	int node;
	bool whole;             /* the machine's figures are the node's */
	uint64_t reserve_bytes; /* kept back by the node's zones */
	uint64_t low_bytes;     /* low watermarks of the node's zones */
};

/*
 * gm_meminfo_open - find out where the figures of @node are
 *
 * root		kept by address; NULL for this machine
 *
 * Returns	0
 *		-ENODEV		no such node
 *		-ENAMETOOLONG	root is too long
 */
int gm_meminfo_open(const char *root, int node, struct gm_meminfo *ret_info);

/*
 * gm_meminfo_read - read them
 *
 * Returns	0
 *		-EPROTO		the file has no MemTotal
 *		and what open and read return
 */
int gm_meminfo_read(const struct gm_meminfo *info, uint64_t *ret_total_bytes,
		    uint64_t *ret_free_bytes);

#endif
